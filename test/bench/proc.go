package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, in which Linux counts CPU time for user space on every architecture that Go runs on.
const ticksPerSecond = 100

// procfs is where the kernel says what processes use: /proc, or a copy in a test.
type procfs string

// A stat is what a process has used since it began.
type stat struct {
	name    string
	parent  int
	seconds float64 // of CPU, in user space and in the kernel
}

// parseStat reads the stat file of a process: "pid (name) state parent ...", with the CPU time in fields 14 and 15.
func parseStat(text string) (stat, error) {
	open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // a name may hold either
	if open < 0 || shut < open {
		return stat{}, fmt.Errorf("stat of a process without a name: %q", text)
	}
	s := stat{name: text[open+1 : shut]}
	fields := strings.Fields(text[shut+1:]) // the first is field 3
	if len(fields) < 13 {
		return stat{}, fmt.Errorf("stat of a process with %d fields: %q", len(fields)+2, text)
	}
	numbers := make([]int, 0, 3)
	for _, field := range []string{fields[1], fields[11], fields[12]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return stat{}, fmt.Errorf("stat of a process: %w", err)
		}
		numbers = append(numbers, n)
	}
	s.parent, s.seconds = numbers[0], float64(numbers[1]+numbers[2])/ticksPerSecond
	return s, nil
}

// tree returns a process and its descendants, by process id.
func (fs procfs) tree(root int) (map[int]stat, error) {
	files, err := filepath.Glob(filepath.Join(string(fs), "[0-9]*", "stat"))
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since it was listed
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if all[pid], err = parseStat(string(text)); err != nil {
			return nil, err
		}
	}
	if _, ok := all[root]; !ok {
		return nil, fmt.Errorf("process %d has ended", root)
	}
	tree := make(map[int]stat)
	for pid, s := range all {
		if descends(all, pid, root) {
			tree[pid] = s
		}
	}
	return tree, nil
}

func descends(all map[int]stat, pid, root int) bool {
	for range len(all) { // bounded: the files were not read at one moment
		if pid == root {
			return true
		}
		pid = all[pid].parent
	}
	return false
}

// cpuBetween returns the seconds of CPU that each process used between two readings. One that ended between them makes
// both worthless.
func cpuBetween(before, after map[int]stat) (map[int]float64, error) {
	for pid, s := range before {
		if _, ok := after[pid]; !ok {
			return nil, fmt.Errorf("process %d (%s) has ended", pid, s.name)
		}
	}
	used := make(map[int]float64, len(after))
	for pid, s := range after {
		used[pid] = s.seconds - before[pid].seconds
	}
	return used, nil
}

// memory returns the resident memory of a process and of each of its descendants in KB.
func (fs procfs) memory(root int) (map[int]float64, error) {
	tree, err := fs.tree(root)
	if err != nil {
		return nil, err
	}
	used := make(map[int]float64, len(tree))
	for pid, s := range tree {
		text, err := os.ReadFile(filepath.Join(string(fs), strconv.Itoa(pid), "statm"))
		if err != nil {
			return nil, fmt.Errorf("reading the memory of %s: %w", s.name, err)
		}
		pages, err := residentPages(string(text))
		if err != nil {
			return nil, err
		}
		used[pid] = float64(pages) * float64(os.Getpagesize()) / 1024
	}
	return used, nil
}

// residentPages reads a statm file: "size resident shared ...", in pages.
func residentPages(text string) (int64, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of a process with %d fields", len(fields))
	}
	return strconv.ParseInt(fields[1], 10, 64)
}

// busy returns the seconds of CPU that the whole machine has used since it began, with those that a hypervisor gave to
// other machines.
func (fs procfs) busy() (float64, error) {
	text, err := os.ReadFile(filepath.Join(string(fs), "stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	return parseBusy(string(text))
}

// parseBusy reads the first line of the machine's stat file: "cpu user nice system idle iowait irq softirq steal guest
// guest_nice". The last two are counted in the first two as well.
func parseBusy(text string) (float64, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("stat of the machine: %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat of the machine: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}
