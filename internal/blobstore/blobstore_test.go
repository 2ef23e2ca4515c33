package blobstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
)

// stores are the URLs of stores that are empty.
var stores = map[string]func(*testing.T) string{
	"folder": func(t *testing.T) string { return "file://" + filepath.ToSlash(t.TempDir()) + "/is/made" },
	"memory": func(*testing.T) string { return "mem://" },
	"S3":     func(t *testing.T) string { return s3(t) },
	"S3, below a prefix": func(t *testing.T) string {
		return s3(t) + "&prefix=modelgate/"
	},
}

// s3 returns the URL of a bucket at a server that speaks S3's protocol.
func s3(t *testing.T) string {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return "s3://bucket?region=us-east-1&use_path_style=true&endpoint=" + server.URL
}

func open(t *testing.T, address string) *blob.Bucket {
	t.Helper()
	b, err := blobstore.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func names(t *testing.T, b *blob.Bucket, prefix string) []string {
	t.Helper()
	found := []string{}
	for token := blob.FirstPageToken; token != nil; {
		var page []*blob.ListObject
		var err error
		page, token, err = b.ListPage(t.Context(), token, 3, &blob.ListOptions{Prefix: prefix})
		require.NoError(t, err)
		for _, o := range page {
			found = append(found, o.Key)
			require.WithinDuration(t, time.Now(), o.ModTime, time.Minute)
		}
	}
	return found
}

// begin begins to write a blob, of which so much comes at once.
func begin(ctx context.Context, t *testing.T, b *blob.Bucket, name string, content []byte) *blob.Writer {
	t.Helper()
	w, err := b.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream", BufferSize: 5 << 20,
		MaxConcurrency: 2})
	require.NoError(t, err)
	_, err = w.Write(content)
	require.NoError(t, err)
	return w
}

func TestStores(t *testing.T) {
	for name, address := range stores {
		t.Run(name, func(t *testing.T) {
			for what, check := range map[string]func(*testing.T, *blob.Bucket){
				"what was written is read":    writtenIsRead,
				"what is given up is not":     givenUpIsNot,
				"what is missing is said":     missingIsSaid,
				"a blob is replaced at once":  replacedAtOnce,
				"lists are sorted and whole":  listed,
				"an empty blob is a blob":     empty,
				"large blobs come whole":      large,
				"deleted blobs are not there": deleted,
			} {
				t.Run(what, func(t *testing.T) { check(t, open(t, address(t))) })
			}
		})
	}
}

func writtenIsRead(t *testing.T, b *blob.Bucket) {
	require.NoError(t, begin(t.Context(), t, b, "files/a", []byte("0123456789")).Close())
	for _, tc := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {4, -1, "456789"}, {2, 3, "234"}, {8, 10, "89"}, {0, 1, "0"}} {
		r, err := b.NewRangeReader(t.Context(), "files/a", tc.offset, tc.length, nil)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, tc.want, string(got))
		require.NoError(t, r.Close())
	}
	a, err := b.Attributes(t.Context(), "files/a")
	require.NoError(t, err)
	require.EqualValues(t, 10, a.Size)
	require.WithinDuration(t, time.Now(), a.ModTime, time.Minute)
}

func givenUpIsNot(t *testing.T, b *blob.Bucket) {
	for _, size := range []int{1, 12 << 20} { // in one request to S3, and in several
		ctx, giveUp := context.WithCancel(t.Context())
		w := begin(ctx, t, b, "files/a", make([]byte, size))
		require.Empty(t, names(t, b, ""))
		giveUp()
		require.Error(t, w.Close())
		require.Empty(t, names(t, b, ""))
		_, err := b.Attributes(t.Context(), "files/a")
		require.True(t, blobstore.IsMissing(err))
	}
}

func missingIsSaid(t *testing.T, b *blob.Bucket) {
	_, err := b.NewReader(t.Context(), "files/none", nil)
	require.True(t, blobstore.IsMissing(err), "%v", err)
	require.False(t, blobstore.IsFull(err))
	_, err = b.Attributes(t.Context(), "files/none")
	require.True(t, blobstore.IsMissing(err), "%v", err)
	require.False(t, blobstore.IsMissing(nil))
	require.Empty(t, names(t, b, "files/"))
}

func replacedAtOnce(t *testing.T, b *blob.Bucket) {
	require.NoError(t, b.WriteAll(t.Context(), "a", []byte("old"), nil))
	w := begin(t.Context(), t, b, "a", []byte("new and longer"))
	got, err := b.ReadAll(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.NoError(t, w.Close())
	got, err = b.ReadAll(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "new and longer", string(got))
	require.Equal(t, []string{"a"}, names(t, b, ""))
}

func listed(t *testing.T, b *blob.Bucket) {
	var want []string
	for i := 10; i > 0; i-- {
		for _, folder := range []string{"files/", "files-else/", "uploads/x.", "batches/b/"} {
			require.NoError(t, b.WriteAll(t.Context(), fmt.Sprintf("%s%02d", folder, i), []byte("x"), nil))
		}
		want = append(want, fmt.Sprintf("files/%02d", 11-i))
	}
	require.Equal(t, want, names(t, b, "files/"))
	require.Len(t, names(t, b, ""), 40)
	require.Len(t, names(t, b, "uploads/x."), 10)
	require.Empty(t, names(t, b, "none/"))
}

func empty(t *testing.T, b *blob.Bucket) {
	w, err := b.NewWriter(t.Context(), "a", &blob.WriterOptions{ContentType: "text/plain"})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, err := b.ReadAll(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, got)
}

func large(t *testing.T, b *blob.Bucket) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MB, more than three parts of S3's
	w := begin(t.Context(), t, b, "a", content[:100])
	_, err := w.Write(content[100:])
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, err := b.ReadAll(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
}

func deleted(t *testing.T, b *blob.Bucket) {
	require.NoError(t, b.WriteAll(t.Context(), "a", []byte("x"), nil))
	require.NoError(t, b.Delete(t.Context(), "a"))
	if err := b.Delete(t.Context(), "a"); err != nil { // S3 says nothing
		require.True(t, blobstore.IsMissing(err))
	}
	_, err := b.Attributes(t.Context(), "a")
	require.True(t, blobstore.IsMissing(err))
}

func TestAPrefixKeepsBlobsApart(t *testing.T) {
	address := s3(t)
	require.NoError(t, open(t, address+"&prefix=modelgate/").WriteAll(t.Context(), "files/a", []byte("x"), nil))
	require.Equal(t, []string{"modelgate/files/a"}, names(t, open(t, address), ""))
}

func TestAddressesThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for address, why := range map[string]string{
		"":                                       "blob store",
		"%":                                      "blob store",
		"ftp://x":                                "blob store ftp://x",
		"file://data":                            "a folder is written file:///path",
		"file:data":                              "a folder is written file:///path",
		"file://":                                "a folder is written file:///path",
		"file://" + filepath.ToSlash(file):       "blob store",
		"mem://?prefix=a":                        "the prefix must end in a slash",
		"s3://user:password@bucket?unheard=of":   "s3://user:xxxxx@bucket",
		"s3://bucket?use_path_style=perhaps":     "use_path_style",
		"file://" + filepath.ToSlash(file) + "/": "blob store",
	} {
		_, err := blobstore.Open(t.Context(), address)
		require.ErrorContains(t, err, why, address)
		require.NotContains(t, err.Error(), "password")
	}
}

// onDisk returns the files in a folder.
func onDisk(t *testing.T, dir string) []string {
	t.Helper()
	found := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/"))
		}
		return err
	}))
	return found
}

func TestAFolderHidesWhatIsBeingWritten(t *testing.T) {
	dir := t.TempDir()
	b := open(t, "file://"+filepath.ToSlash(dir))
	w := begin(t.Context(), t, b, "files/a", []byte("x"))
	temporary := onDisk(t, dir)
	require.Len(t, temporary, 1)
	require.Empty(t, names(t, b, "files/"))
	old := time.Now().Add(-23 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, temporary[0]), old, old))
	require.Empty(t, names(t, b, "files/"))
	require.Len(t, onDisk(t, dir), 1, "it may still be written")
	require.NoError(t, w.Close())
	require.Equal(t, []string{"files/a"}, onDisk(t, dir))
}

func TestAFolderIsRidOfWhatAKilledProcessHasLeft(t *testing.T) {
	dir := t.TempDir()
	b := open(t, "file://"+filepath.ToSlash(dir))
	ctx, giveUp := context.WithCancel(t.Context())
	w := begin(ctx, t, b, "files/a", []byte("x"))
	temporary := onDisk(t, dir)[0]
	require.NoError(t, b.WriteAll(t.Context(), "files/b.tmp", []byte("x"), nil))
	old := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{temporary, "files/b.tmp"} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	page, _, err := b.ListPage(t.Context(), blob.FirstPageToken, 10, nil)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, []string{"files/b.tmp"}, onDisk(t, dir), "a blob may have any name but those of temporary files")
	giveUp()
	require.Error(t, w.Close())
}

func TestAFolderIsReadableToItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	b := open(t, "file://"+filepath.ToSlash(dir))
	require.NoError(t, b.WriteAll(t.Context(), "files/a", []byte("x"), nil))
	for _, path := range []string{dir, filepath.Join(dir, "files")} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
}
