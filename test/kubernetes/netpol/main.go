// Package main enforces NetworkPolicies on the one node of a test cluster: it watches pods, namespaces and policies,
// and writes what they say as rules of nftables, which hold for everything that the node forwards between pods, and
// from pods to itself.
//
// It is for tests. It knows IPv4 and one node; what the node itself sends to a pod is never refused (the
// kubelet's probes are such), and connections that are open when a policy changes stay. What it does not know it
// refuses to run with.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// resources are what policies speak of.
var resources = [...]string{"/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies"}

// A cluster is where the API server is.
type cluster struct {
	server, token string
	client        *http.Client
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	ca := flag.String("ca", "", "its certificate authority")
	token := flag.String("token", "", "who asks")
	flag.Parse()
	pem, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := cluster{*server, *token, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}

	changed := make(chan struct{}, 1)
	for _, resource := range resources {
		go c.watch(resource, changed)
	}
	var applied string
	for range changed {
		rules, err := c.rules()
		if err == nil && rules != applied {
			err = apply(rules)
		}
		if err != nil {
			log.Print(err)
			continue
		}
		if rules != applied {
			log.Printf("%d bytes of rules", len(rules))
			applied = rules
		}
	}
}

// watch says on changed that something may have changed, until the process ends.
func (c cluster) watch(resource string, changed chan<- struct{}) {
	for ; ; <-time.After(200 * time.Millisecond) {
		answer, err := c.get(resource + "?watch=1")
		if err != nil {
			continue
		}
		lines := bufio.NewReader(answer.Body)
		for {
			if _, err := lines.ReadSlice('\n'); err != nil && err != bufio.ErrBufferFull {
				break
			}
			select {
			case changed <- struct{}{}:
			default: // it is going to look in any case
			}
		}
		answer.Body.Close()
	}
}

func (c cluster) get(path string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, c.server+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	answer, err := c.client.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return answer, err
}

// rules are those of the moment.
func (c cluster) rules() (string, error) {
	var w world
	for i, into := range []any{&w.Pods, &w.Namespaces, &w.Policies} {
		answer, err := c.get(resources[i])
		if err != nil {
			return "", err
		}
		err = json.NewDecoder(answer.Body).Decode(into)
		answer.Body.Close()
		if err != nil {
			return "", fmt.Errorf("read %s: %w", resources[i], err)
		}
	}
	return w.render()
}

// apply has the kernel change from the rules of before to these in one step.
func apply(rules string) error {
	command := exec.Command("nft", "-f", "-")
	command.Stdin = bytes.NewBufferString("table inet netpol\ndelete table inet netpol\n" + rules)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}
