package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

// mostModule is what a module proxy may have to send for `go install`: all of the repository but other modules, packed.
const mostModule = 25 << 20

// TestModule: the module is small, no replace directive keeps others from importing or installing it, and, where
// LOWPACK_LONG asks for it, `go install` gets the program from a proxy.
func TestModule(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace) > 0 || len(mod.Exclude) > 0 {
		t.Error("go install refuses a module with replace or exclude directives")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "rev-parse", "--git-dir").Run(); err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	var packed bytes.Buffer
	version := gomodule.Version{Path: modulePath, Version: "v0.999.0"}
	if err := zip.CreateFromVCS(&packed, version, root, "HEAD", ""); err != nil {
		t.Fatal(err)
	}
	if packed.Len() > mostModule {
		t.Errorf("the module is a zip of %d bytes, more than %d", packed.Len(), mostModule)
	}
	long.Only(t) // the program is compiled once more
	installed(t, version, text, packed.Bytes())
}

// installed gets the program from a proxy that has the module; what it needs comes from the cache of modules.
func installed(t *testing.T, v gomodule.Version, mod, packed []byte) {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "proxy", filepath.FromSlash(v.Path), "@v", v.Version)
	write(t, at+".info", `{"Version":"`+v.Version+`"}`)
	write(t, at+".mod", string(mod))
	write(t, at+".zip", string(packed))
	write(t, filepath.Join(filepath.Dir(at), "list"), v.Version+"\n")
	file := func(path string) string { return "file://" + filepath.ToSlash(path) }
	install := exec.Command("go", "install", "-modcacherw", v.Path+"/cmd/lowpack@latest")
	install.Dir = dir // in no module
	install.Env = append(os.Environ(), "GOPROXY="+file(filepath.Join(dir, "proxy"))+","+
		file(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download"))+",off", "GOSUMDB=off", "GOFLAGS=",
		"GOWORK=off", "GOBIN="+filepath.Join(dir, "bin"), "GOMODCACHE="+filepath.Join(dir, "modules"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "bin", "lowpack"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), v.Version) {
		t.Errorf("%v\n%s", err, out)
	}
}
