package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// plan is the packages of a run, and how long each took before: what is left is a guess from that.
type plan struct {
	seconds     map[string]float64 // by package, of the runs before and this one
	left        map[string]float64 // weights of packages that have not ended
	total, done float64            // weights
	packages    int
}

// newPlan weighs packages by the seconds that they took. One that has not run before weighs as much as others do on
// average.
func newPlan(packages []string, seconds map[string]float64) *plan {
	p := &plan{seconds: seconds, left: map[string]float64{}, packages: len(packages)}
	sum, known := 0.0, 0
	for _, name := range packages {
		if s, ok := seconds[name]; ok {
			sum, known = sum+s, known+1
		}
	}
	usual := 1.0
	if known > 0 && sum > 0 {
		usual = sum / float64(known)
	}
	for _, name := range packages {
		weight, ok := seconds[name]
		if !ok {
			weight = usual
		}
		p.left[name] = weight
		p.total += weight
	}
	return p
}

// end notes a package that has ended. What comes from the cache took no time, and says nothing about the next run.
func (p *plan) end(name string, seconds float64, cached bool) {
	p.done += p.left[name]
	delete(p.left, name)
	if !cached {
		p.seconds[name] = seconds
	}
}

// fewest is the part of the work before which its end cannot be told.
const fewest = 0.1

// state is how many packages have ended, and how long the others will take if they go on as those did.
func (p *plan) state(took time.Duration) string {
	text := fmt.Sprintf("%d of %d packages", p.packages-len(p.left), p.packages)
	if p.done >= fewest*p.total && len(p.left) > 0 {
		rest := time.Duration(float64(took) * (p.total - p.done) / p.done)
		text += fmt.Sprintf(", about %s left", rest.Round(time.Second))
	}
	return text
}

// record is the file that remembers the seconds of packages, in the build cache; empty where there is none.
func record() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "lowpack-testrun.json")
}

// readSeconds reads a record; one that cannot be read is as good as none.
func readSeconds(path string) map[string]float64 {
	seconds := map[string]float64{}
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &seconds) != nil {
		return map[string]float64{}
	}
	return seconds
}

func writeSeconds(path string, seconds map[string]float64) error {
	text, err := json.Marshal(seconds)
	if err != nil || path == "" {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// listed are the packages that the arguments of go test name.
func listed(args []string) ([]string, error) {
	out, err := exec.Command("go", append([]string{"list"}, patterns(args)...)...).Output()
	return strings.Fields(string(out)), err
}

// patterns are the arguments of go test after its flags.
func patterns(args []string) []string {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i:]
		}
		if slices.Contains(withValue, strings.TrimLeft(args[i], "-")) {
			i++
		}
	}
	return nil
}
