package main

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manifest"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestServeContainer builds the image of docs/examples/serve/Containerfile as a folder and runs the program in it as
// the Deployment does: in a root file system with nothing else in it (no /proc, /tmp or /etc), as an unprivileged user.
func TestServeContainer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	self, err := os.Executable() // the test binary acts as lowpack if called by that name
	if err != nil {
		t.Fatal(err)
	}
	if binary, err := elf.Open(self); err != nil {
		t.Fatal(err)
	} else if libraries, _ := binary.ImportedLibraries(); len(libraries) > 0 {
		t.Skipf("this program is not static but needs %q: make test sets CGO_ENABLED=0", libraries)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../docs/examples/serve/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	cmd := &exec.Cmd{Dir: "/", Env: []string{}, SysProcAttr: &syscall.SysProcAttr{Chroot: root}}
	for line := range strings.Lines(string(file)) {
		switch word := strings.Fields(line); word[0] {
		case "#", "ARG", "EXPOSE", "CMD":
		case "FROM":
			if word[1] != "scratch" {
				t.Errorf("the image is not empty but %s", word[1])
			}
		case "COPY":
			placeFor(t, root, word[2])
			if err := os.WriteFile(filepath.Join(root, word[2]), program, 0o555); err != nil {
				t.Fatal(err)
			}
		case "ENV":
			cmd.Env = append(cmd.Env, word[1])
		case "USER":
			id, _, _ := strings.Cut(word[1], ":")
			n, err := strconv.ParseUint(id, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(n), Gid: uint32(n)}
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, word[0])), &cmd.Args); err != nil {
				t.Fatal(err)
			}
			cmd.Path = cmd.Args[0]
		default:
			t.Fatalf("%s: this test does not know it", line)
		}
	}
	model, err := os.ReadFile(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{"/models/model.safetensors": string(model), "/keys/keys": "secret\n"} {
		placeFor(t, root, path)
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	container := manifest.Find(manifest.Objects(t, "../../docs/examples/serve/kubernetes.yaml")[0], "spec", "template",
		"spec", "containers", 0)
	for _, arg := range manifest.Find(container, "args").([]any) {
		cmd.Args = append(cmd.Args, strings.Replace(fmt.Sprint(arg), "8080", "0", 1))
	}
	s := serveBy(t, cmd, "")
	s.url = strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(s.url)
	status, text := s.send(http.MethodPost, "/v1/completions", `{"prompt": "The river", "max_tokens": 5}`,
		http.Header{"Authorization": {"Bearer secret"}})
	if usage := manifest.Find(decode(string(text)), "usage", "completion_tokens"); status != http.StatusOK ||
		fmt.Sprint(usage) != "5" {
		t.Errorf("%d %s", status, text)
	}
}

// placeFor creates the folder of a file, readable for everyone.
func placeFor(t *testing.T, root, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil { // TempDir denies other users access
		t.Fatal(err)
	}
}

// TestServeUnit: systemd-analyze accepts the unit.
func TestServeUnit(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	unit, err := os.ReadFile("../../docs/examples/serve/lowpack.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // the unit names one that is not installed here
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(unit), "ExecStart=/usr/local/bin/lowpack ", "ExecStart="+program+" ", 1)
	path := filepath.Join(t.TempDir(), "lowpack.service")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
