package release

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

// TestReproducible builds copies of the tree in folders of different names, with different settings of the go command:
// with and without a repository, with one that cannot be read, and with changed files. On the way it installs what it
// built. Without LOWPACK_LONG it builds once.
func TestReproducible(t *testing.T) {
	for _, tool := range []string{"git", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	if testing.Short() {
		t.Skip("links the program")
	}
	repository := tree(t, "repository with spaces")
	run(t, repository, nil, "git", "init", "-q")
	run(t, repository, nil, "git", "add", "-A")
	run(t, repository, nil, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "t")
	commit := strings.TrimSpace(run(t, repository, nil, "git", "rev-parse", "HEAD"))
	run(t, repository, nil, "make", "build")
	if got := revision(t, repository); got != commit {
		t.Errorf("the revision is %q; %q expected", got, commit)
	}
	install(t, repository)
	if !long.All {
		return
	}

	bare := tree(t, "b")
	other := []string{"GOFLAGS=-race -ldflags=-s -tags=purego", "GOAMD64=v3", "GOEXPERIMENT=jsonv2",
		"HOME=" + t.TempDir(),
		"GOCACHE=" + t.TempDir()}
	run(t, bare, other, "make", "build", "REVISION="+commit)
	if a, b := digest(t, repository), digest(t, bare); a != b {
		t.Errorf("two builds of one source: SHA-256 %x and %x", a, b)
	}
	write(t, filepath.Join(repository, "changed"), "")
	run(t, repository, nil, "make", "build")
	if got := revision(t, repository); got != commit+"+dirty" {
		t.Errorf("with a changed file, the revision is %q", got)
	}
	write(t, filepath.Join(bare, ".git"), "gitdir: nowhere\n")
	run(t, bare, nil, "make", "build")
	if got := revision(t, bare); got != "unknown" {
		t.Errorf("with a broken repository, the revision is %q", got)
	}
}

// install puts everything in place and takes it away again.
func install(t *testing.T, dir string) {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "usr local")
	run(t, dir, nil, "make", "install", "PREFIX="+prefix)
	for _, name := range []string{"bin/lowpack", "share/man/man1/lowpack.1", "share/man/man1/lowpack-convert.1",
		"share/bash-completion/completions/lowpack",
		"share/zsh/site-functions/_lowpack", "share/fish/vendor_completions.d/lowpack.fish"} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Size() == 0 {
			t.Errorf("make install: %s: %v", name, err)
		}
	}
	run(t, dir, nil, "make", "uninstall", "PREFIX="+prefix)
	err := filepath.WalkDir(prefix, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("make uninstall leaves %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// tree copies the sources that git knows into a new folder.
func tree(t *testing.T, name string) string {
	t.Helper()
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--", "*.go", "*.s", "go.mod", "go.sum",
		"Makefile",
		".gitignore", "cmd", "convert", "formats", "internal", "runtime").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	dir := filepath.Join(t.TempDir(), name)
	for _, file := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		from, err := os.Open(filepath.Join("../..", file))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		from.Close()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), string(text))
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPATH="+goEnv(t, "GOPATH"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"GOCACHE="+goEnv(t, "GOCACHE"), "GOPROXY="+goEnv(t, "GOPROXY"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q in %s: %v\n%s", name, args, dir, err, out)
	}
	return string(out)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func digest(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "bin", "lowpack"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

func revision(t *testing.T, dir string) string {
	t.Helper()
	var v struct{ Revision string }
	err := json.Unmarshal([]byte(run(t, dir, nil, filepath.Join(dir, "bin", "lowpack"), "version", "--json")), &v)
	if err != nil {
		t.Fatal(err)
	}
	return v.Revision
}
