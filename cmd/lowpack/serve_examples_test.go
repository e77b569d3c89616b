package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestServeExamples starts a server with the command lines of the manifests, but for paths and address, and asks for what their
// probes and metrics name.
func TestServeExamples(t *testing.T) {
	t.Parallel()
	file := tinymodel.Path(t)
	keys := t.TempDir() + "/keys"
	if err := os.WriteFile(keys, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := func(args []string) []string { // the flags behind the file; those that serveFile sets are left out
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

	objects := manifests(t, "../../docs/examples/serve/kubernetes.yaml")
	if len(objects) != 4 {
		t.Fatalf("%d objects in the manifest", len(objects))
	}
	container := find(objects[0], "spec", "template", "spec", "containers", 0)
	var args []string
	for _, a := range find(container, "args").([]any) {
		args = append(args, a.(string))
	}
	s := serveFile(t, "", file, local(args)...)
	if status, text := s.get(find(container, "readinessProbe", "httpGet", "path").(string), ""); status != http.StatusOK {
		t.Errorf("readiness: %d %s", status, text)
	}
	metric := find(objects[3], "spec", "metrics", 0, "pods", "metric", "name").(string)
	if status, text := s.get("/metrics", "secret"); status != http.StatusOK || !strings.Contains(text, "\n"+metric+"{") {
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

// manifests reads the objects of a YAML file.
func manifests(t *testing.T, path string) (list []any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
}

// find follows keys and indexes.
func find(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			v = l[p]
		}
	}
	return v
}
