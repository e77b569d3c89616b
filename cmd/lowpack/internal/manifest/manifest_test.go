package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestInteropManifests: all manifests satisfy the schemas of Kubernetes and of KServe, without fields that these do not
// know; and the pod is the same in both.
func TestInteropManifests(t *testing.T) {
	const folder = "../../../../docs/examples/"
	files := []string{folder + "serve/kubernetes.yaml", folder + "kubernetes/convert.yaml",
		folder + "kubernetes/merge.yaml"}
	out := interop.Python(t, "kubernetes", "testdata/manifests_check.py", files...)
	if kinds := string(out); kinds != "Deployment\nService\nPodDisruptionBudget\nHorizontalPodAutoscaler\nJob\nJob\n" {
		t.Errorf("%s", kinds)
	}
	service := Objects(t, folder+"serve/kserve.yaml")[0]
	if err := kserveSchema(t).Validate(service); err != nil {
		t.Error(err)
	}
	args := func(container any) string { return fmt.Sprint(Find(container, "args")) }
	image := func(container any) string { return fmt.Sprint(Find(container, "image")) }
	pod := Find(Objects(t, folder+"serve/kubernetes.yaml")[0], "spec", "template", "spec", "containers", 0)
	own := Find(service, "spec", "predictor", "containers", 0)
	if args(own) != args(pod) || image(own) != image(pod) {
		t.Errorf("kserve.yaml runs %s, kubernetes.yaml %s", args(own), args(pod))
	}
}

// kserveSchema returns the schema of an InferenceService, from KServe's module, with unknown fields refused.
func kserveSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const module = "github.com/kserve/kserve@v0.17.0"
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // KServe is not a dependency of this module
	out, err := cmd.Output()
	var place struct{ Dir string }
	if err := errors.Join(err, json.Unmarshal(out, &place)); err != nil || place.Dir == "" {
		t.Fatalf("%s: %v\n%s", module, err, out)
	}
	definition := Objects(t, filepath.Join(place.Dir, "config/crd/full/serving.kserve.io_inferenceservices.yaml"))[0]
	if Find(definition, "spec", "versions", 0, "name") != "v1beta1" {
		t.Fatal("another version comes first")
	}
	schema := Find(definition, "spec", "versions", 0, "schema", "openAPIV3Schema")
	closeObjects(schema)
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kserve.json", v); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("kserve.json")
}

// closeObjects refuses fields that a schema does not name, as the API server does on request.
func closeObjects(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if s["properties"] != nil && s["additionalProperties"] == nil && s["type"] == "object" {
			s["additionalProperties"] = s["x-kubernetes-preserve-unknown-fields"] == true
		}
		for _, inner := range s {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range s {
			closeObjects(inner)
		}
	}
}
