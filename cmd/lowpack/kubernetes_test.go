//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

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

// readIndexed reads the manifest of an indexed Job and checks the fields that its pods rely on.
func readIndexed(t *testing.T, name string) (jobManifest, container) {
	t.Helper()
	m, pod := readManifest(t, name)
	s := m.Spec
	if s.CompletionMode != "Indexed" || s.Completions < 2 || s.Parallelism < 1 || s.Parallelism > s.Completions ||
		s.BackoffLimitPerIndex == nil || *s.BackoffLimitPerIndex < 1 ||
		s.BackoffLimit != nil || s.PodReplacementPolicy != "Failed" {
		t.Errorf("%s: %+v", name, s)
	}
	for _, r := range s.PodFailurePolicy.Rules {
		if (r.OnExitCodes == nil) == (r.OnPodConditions == nil) {
			t.Errorf("%s: a rule has not one of onExitCodes and onPodConditions: %+v", name, r)
		}
		if r.OnExitCodes != nil && (r.OnExitCodes.ContainerName != pod.Name || r.OnExitCodes.Operator != "In" ||
			len(r.OnExitCodes.Values) != 1 || r.OnExitCodes.Values[0] != 2) {
			t.Errorf("%s: rule about exit codes: %+v", name, r.OnExitCodes)
		}
	}
	return m, pod
}

// pod returns what a container runs, with the volumes models and data in the directory of the job.
func (j *job) pod(c container, index, completions int) *exec.Cmd {
	j.t.Helper()
	cmd := exec.Command(c.Command[0], append(c.Command[1:], c.Args...)...)
	cmd.Env = append(j.env[:len(j.env):len(j.env)], "JOB_COMPLETION_INDEX="+strconv.Itoa(index))
	for _, e := range c.Env {
		value := e.Value
		if e.Name == "COUNT" && value != strconv.Itoa(completions) {
			j.t.Errorf("COUNT is %s, completions %d", value, completions)
		}
		value = strings.Replace(value, "/models/", j.dir+"/", 1)
		value = strings.Replace(value, "/data/", j.dir+"/", 1)
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	return cmd
}

// pods runs every index of a Job, every other one twice and at the same time, as a cluster may; then each again.
func (j *job) pods(c container, completions int) {
	j.t.Helper()
	var running []*exec.Cmd
	for i := range completions {
		for range 1 + i%2 {
			cmd := j.pod(c, i, completions)
			if err := cmd.Start(); err != nil {
				j.t.Fatal(err)
			}
			running = append(running, cmd)
		}
	}
	for _, cmd := range running {
		_ = cmd.Wait() // one of two may have been refused
	}
	for i := range completions { // the files that a later pod finds
		if out, err := j.pod(c, i, completions).CombinedOutput(); err != nil {
			j.t.Fatalf("index %d: %v\n%s", i, err, out)
		}
	}
}

// TestKubernetes checks the relevant fields of the manifests, and runs what their containers run, then the merge. There
// is no cluster in this test.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	m, pod := readIndexed(t, "convert.yaml")
	merge, joining := readManifest(t, "merge.yaml")
	if merge.Spec.BackoffLimit == nil || merge.Spec.CompletionMode != "" {
		t.Errorf("merge.yaml: %+v", merge.Spec)
	}
	j, whole := examples(t)
	j.pods(pod, m.Spec.Completions)
	if out, err := j.pod(joining, 0, m.Spec.Completions).CombinedOutput(); err != nil {
		t.Fatalf("merge: %v\n%s", err, out)
	}
	j.same("model.safetensors", whole)
	j.made("model.safetensors.xml")
}

// TestKubernetesBatch does the same for files of requests, whose answers one after another are those of all requests.
func TestKubernetesBatch(t *testing.T) {
	t.Parallel()
	m, pod := readIndexed(t, "batch.yaml")
	j := newBatchJob(t, 40)
	j.run(fmt.Sprintf("split -n l/%d --additional-suffix=.jsonl requests.jsonl requests/part.", m.Spec.Completions))
	j.pods(pod, m.Spec.Completions)
	j.sameAnswers()
}
