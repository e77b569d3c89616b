package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manifest"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestServeExamples starts a server with the command lines of the manifests, except for paths and address, and queries
// their probes and metrics.
func TestServeExamples(t *testing.T) {
	t.Parallel()
	file := tinymodel.Path(t)
	keys := t.TempDir() + "/keys"
	if err := os.WriteFile(keys, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := func(args []string) []string { // the flags after the file, without the ones that serveFile sets
		var flags []string
		for i := 2; i < len(args); i += 2 {
			switch value := args[i+1]; args[i] {
			case "--port", "--host":
			case "--api-key-file":
				flags = append(flags, args[i], keys)
			default:
				flags = append(flags, args[i], value)
			}
		}
		return flags
	}
	unit, err := os.ReadFile("../../docs/examples/serve/lowpack.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(unit), "ExecStart=/usr/local/bin/lowpack ")
	line, _, _ = strings.Cut(line, "\n")
	serveFile(t, "", file, local(strings.Fields(line))...)

	objects := manifest.Objects(t, "../../docs/examples/serve/kubernetes.yaml")
	if len(objects) != 4 {
		t.Fatalf("%d objects in the manifest", len(objects))
	}
	container := manifest.Find(objects[0], "spec", "template", "spec", "containers", 0)
	var args []string
	for _, a := range manifest.Find(container, "args").([]any) {
		args = append(args, a.(string))
	}
	s := serveFile(t, "", file, local(args)...)
	if status, text := s.get(manifest.Find(container, "readinessProbe", "httpGet", "path").(string),
		""); status != http.StatusOK {
		t.Errorf("readiness: %d %s", status, text)
	}
	metric := manifest.Find(objects[3], "spec", "metrics", 0, "pods", "metric", "name").(string)
	if status, text := s.get("/metrics", "secret"); status != http.StatusOK ||
		!strings.Contains(text, "\n"+metric+"{") {
		t.Errorf("metric %s: %d", metric, status)
	}
	if status, _ := s.get("/metrics", ""); status != http.StatusUnauthorized {
		t.Errorf("/metrics without a key: %d", status)
	}
}

func (s *served) get(path, key string) (int, string) {
	s.t.Helper()
	status, text := s.send(http.MethodGet, path, "", http.Header{"Authorization": {"Bearer " + key}})
	return status, string(text)
}
