package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manifest"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestServeCurl runs the commands of docs/SERVER.md verbatim, and checks curl's output. Only curl's configuration
// changes the port.
func TestServeCurl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	blocks := codeBlocks(t, "../../docs/SERVER.md")["sh"]
	if len(blocks) != 1 {
		t.Fatalf("docs/SERVER.md has %d blocks of commands; this test knows one", len(blocks))
	}
	commands := regexp.MustCompile(`(?m)^curl `).Split(blocks[0], -1)
	if commands[0] != "" || len(commands)-1 != len(curlSays) {
		t.Fatalf("%d commands, the first behind %q; this test knows %d", len(commands)-1, commands[0], len(curlSays))
	}
	u, err := url.Parse(serveFile(t, "", tinymodel.Path(t)).url)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	config := fmt.Sprintf("silent\nshow-error\nfail-with-body\nconnect-to = \"127.0.0.1:8080:127.0.0.1:%s\"\n",
		u.Port())
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, command := range commands[1:] {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "curl "+command)
		cmd.Env = append(os.Environ(), "CURL_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil || !curlSays[i](string(out)) {
			t.Errorf("curl %s: %v\n%s", command, err, out)
		}
	}
}

// curlSays checks the output of the commands, in their order.
var curlSays = []func(string) bool{
	says("assistant", "choices", 0, "message", "role"),
	func(out string) bool {
		return strings.Count(out, "data: {") > 10 && strings.HasSuffix(out, "data: [DONE]\n\n")
	},
	both(says("42", "seed"), says("40", "usage", "completion_tokens")),
	both(says("A clock is a thing", "choices", 0, "text"),
		says("<nil>", "choices", 0, "logprobs", "token_logprobs", 0)),
	says("20", "usage", "output_tokens"),
	func(out string) bool {
		return says("yes", "choices", 0, "text")(out) || says("no", "choices", 0, "text")(out)
	},
	both(says("stop", "choices", 0, "finish_reason"), func(out string) bool {
		text, _ := manifest.Find(decode(out), "choices", 0, "message", "content").(string)
		_, hasName := manifest.Find(decode(text), "name").(string)
		_, hasLong := manifest.Find(decode(text), "long").(bool)
		return hasName && hasLong
	}),
	says(" there", "tokens", 3, "piece"),
	func(out string) bool { return len(fmt.Sprint(manifest.Find(decode(out), "content"))) >= 3 },
	func(out string) bool {
		return strings.Contains(fmt.Sprint(manifest.Find(decode(out), "prompt")), "Hello")
	},
	says("tiny-bitnet", "data", 0, "id"),
	says("ok", "status"),
	func(out string) bool { return strings.Contains(out, "\nvllm:generation_tokens_total{") },
	func(out string) bool { return manifest.Find(decode(out), "version") != nil },
}

func decode(text string) (v any) {
	json.Unmarshal([]byte(text), &v)
	return v
}

// says looks up a value in an answer.
func says(want string, path ...any) func(string) bool {
	return func(out string) bool { return fmt.Sprint(manifest.Find(decode(out), path...)) == want }
}

func both(a, b func(string) bool) func(string) bool {
	return func(out string) bool { return a(out) && b(out) }
}
