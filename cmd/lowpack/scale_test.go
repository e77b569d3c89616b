package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// examples returns a job (see docs_test.go) with the files of docs/examples, and the bytes of an undivided conversion.
func examples(t *testing.T) (j *job, whole string) {
	t.Helper()
	j = newJob(t)
	dir, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	j.env = append(j.env, "EXAMPLES="+dir)
	j.run("lowpack convert checkpoint --layout vnni4i -o whole.safetensors")
	return j, j.read("whole.safetensors")
}

// same demands that a packed file is the one of a conversion in one piece.
func (j *job) same(name, whole string) {
	j.t.Helper()
	if j.read(name) != whole {
		j.t.Errorf("%s is not what one conversion writes", name)
	}
}

// TestScaleExamples runs the command lines of docs/SCALE.md, except for Slurm and Kubernetes, which have separate
// tests.
func TestScaleExamples(t *testing.T) {
	t.Parallel()
	blocks := codeBlocks(t, "../../docs/SCALE.md")["sh"]
	if len(blocks) != 3 {
		t.Fatalf("docs/SCALE.md has other examples than this test knows: %d", len(blocks))
	}
	for _, script := range blocks {
		j, whole := examples(t)
		j.run("ln -s \"$EXAMPLES\" examples\nset -e\n" + script)
		j.same("model.safetensors", whole)
	}
}

// TestWorkers runs several workers on the parts of one conversion at the same time.
func TestWorkers(t *testing.T) {
	t.Parallel()
	j, whole := examples(t)
	j.run(`for w in 1 2 3 4; do sh "$EXAMPLES/shell/worker.sh" checkpoint parts 16 --layout vnni4i 2>log$w & done; wait
		sh "$EXAMPLES/shell/worker.sh" checkpoint parts 16 --layout vnni4i`)
	if left, err := filepath.Glob(filepath.Join(j.dir, "parts", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	j.run("lowpack merge parts/part-* -o model.safetensors")
	j.same("model.safetensors", whole)
}

// TestMakeParts: failed parts are repeated, and nothing else.
func TestMakeParts(t *testing.T) {
	t.Parallel()
	j, whole := examples(t)
	build := `make -j3 -f "$EXAMPLES/shell/parts.mk" CHECKPOINT=checkpoint TARGET=model.safetensors COUNT=5 FLAGS="--layout vnni4i" 2>&1`
	j.run(build)
	j.same("model.safetensors", whole)
	j.run("rm model.safetensors model.safetensors.parts/part-3")
	if out := j.run(build); strings.Count(out, "lowpack convert") != 1 {
		t.Errorf("to make one part again, make ran\n%s", out)
	}
	j.same("model.safetensors", whole)
}

// jobManifest holds the fields of a Kubernetes Job (batch/v1) that the manifests use; any other field is a mistake.
type jobManifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		CompletionMode       string `yaml:"completionMode"`
		Completions          int
		Parallelism          int
		BackoffLimit         *int   `yaml:"backoffLimit"`
		BackoffLimitPerIndex *int   `yaml:"backoffLimitPerIndex"`
		PodReplacementPolicy string `yaml:"podReplacementPolicy"`
		PodFailurePolicy     struct {
			Rules []struct {
				Action      string
				OnExitCodes *struct {
					ContainerName string `yaml:"containerName"`
					Operator      string
					Values        []int
				} `yaml:"onExitCodes"`
				OnPodConditions []struct{ Type, Status string } `yaml:"onPodConditions"`
			}
		} `yaml:"podFailurePolicy"`
		Template struct {
			Spec struct {
				RestartPolicy string `yaml:"restartPolicy"`
				Containers    []container
				Volumes       []struct {
					Name  string
					Claim struct {
						Name     string `yaml:"claimName"`
						ReadOnly bool   `yaml:"readOnly"`
					} `yaml:"persistentVolumeClaim"`
				}
			}
		}
	}
}

type container struct {
	Name, Image   string
	Command, Args []string
	Env           []struct{ Name, Value string }
	Resources     struct{ Requests, Limits map[string]string }
	VolumeMounts  []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// readManifest reads a manifest with one container and demands that its mounts exist.
func readManifest(t *testing.T, name string) (jobManifest, container) {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/kubernetes/" + name)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var m jobManifest
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	pod := m.Spec.Template.Spec
	if m.APIVersion != "batch/v1" || m.Kind != "Job" || m.Metadata.Name == "" || pod.RestartPolicy != "Never" ||
		len(pod.Containers) != 1 {
		t.Fatalf("%s: %+v", name, m)
	}
	c := pod.Containers[0]
	if len(c.Command) != 2 || c.Command[1] != "-c" || len(c.Args) != 1 || c.Image == "" {
		t.Fatalf("%s: %+v", name, c)
	}
	claims := map[string]bool{}
	for _, v := range pod.Volumes {
		claims[v.Name] = v.Claim.Name != ""
	}
	for _, mount := range c.VolumeMounts {
		if !claims[mount.Name] {
			t.Errorf("%s mounts %q, which is not a claimed volume", name, mount.Name)
		}
	}
	for _, e := range c.Env {
		if !strings.HasPrefix(e.Value, "/") {
			continue
		}
		mounted := false
		for _, mount := range c.VolumeMounts {
			mounted = mounted || strings.HasPrefix(e.Value, mount.MountPath+"/")
		}
		if !mounted {
			t.Errorf("%s: %s=%s lies on no volume", name, e.Name, e.Value)
		}
	}
	return m, c
}

// TestKubernetes checks the relevant fields of the manifests, and runs what their containers run: for every index, some
// of them twice and at the same time, as a cluster may; then the merge. There is no cluster in this test.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	m, pod := readManifest(t, "convert.yaml")
	merge, joining := readManifest(t, "merge.yaml")
	s := m.Spec
	if s.CompletionMode != "Indexed" || s.Completions < 2 || s.Parallelism < 1 || s.Parallelism > s.Completions ||
		s.BackoffLimitPerIndex == nil || *s.BackoffLimitPerIndex < 1 ||
		s.BackoffLimit != nil || s.PodReplacementPolicy != "Failed" {
		t.Errorf("convert.yaml: %+v", s)
	}
	for _, r := range s.PodFailurePolicy.Rules {
		if (r.OnExitCodes == nil) == (r.OnPodConditions == nil) {
			t.Errorf("a rule has not one of onExitCodes and onPodConditions: %+v", r)
		}
		if r.OnExitCodes != nil && (r.OnExitCodes.ContainerName != pod.Name || r.OnExitCodes.Operator != "In" ||
			len(r.OnExitCodes.Values) != 1 || r.OnExitCodes.Values[0] != 2) {
			t.Errorf("rule about exit codes: %+v", r.OnExitCodes)
		}
	}
	if merge.Spec.BackoffLimit == nil || merge.Spec.CompletionMode != "" {
		t.Errorf("merge.yaml: %+v", merge.Spec)
	}
	j, whole := examples(t)
	env := func(c container) []string {
		list := j.env
		for _, e := range c.Env {
			value := e.Value
			if e.Name == "COUNT" && value != strconv.Itoa(s.Completions) {
				t.Errorf("COUNT is %s, completions %d", value, s.Completions)
			}
			value = strings.Replace(value, "/models/", j.dir+"/", 1)
			value = strings.Replace(value, "/data/", j.dir+"/", 1)
			list = append(list, e.Name+"="+value)
		}
		return list
	}
	shell := func(c container, index int) *exec.Cmd {
		cmd := exec.Command(c.Command[0], append(c.Command[1:], c.Args...)...)
		cmd.Env = append(env(c), "JOB_COMPLETION_INDEX="+strconv.Itoa(index))
		return cmd
	}
	var running []*exec.Cmd
	for i := range s.Completions {
		for range 1 + i%2 { // every other index has two pods
			cmd := shell(pod, i)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, cmd)
		}
	}
	for _, cmd := range running {
		_ = cmd.Wait() // one of two may have been refused
	}
	for i := range s.Completions { // the files that a later pod finds
		if out, err := shell(pod, i).CombinedOutput(); err != nil {
			t.Fatalf("index %d: %v\n%s", i, err, out)
		}
	}
	if out, err := shell(joining, 0).CombinedOutput(); err != nil {
		t.Fatalf("merge: %v\n%s", err, out)
	}
	j.same("model.safetensors", whole)
	j.made("model.safetensors.xml")
}
