package page

import (
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// judge runs a script with Chromium and the page, whose answers are texts.
func judge(t *testing.T, script string, texts map[string]string) {
	t.Helper()
	model, err := os.ReadFile("testdata/model.md")
	if err != nil {
		t.Fatal(err)
	}
	if texts == nil {
		texts = map[string]string{}
	}
	texts["markdown"] = string(model)
	url := serveStub(t, texts)
	if out := interop.Node(t, "browser", "testdata/"+script, url, t.TempDir()); string(out) != "done\n" {
		t.Errorf("%s", out)
	}
}

// TestInteropChat: answers come, are stopped, repeated, continued and edited, with the settings that are set; Markdown,
// copies, errors, keys and announcements are as they should be.
func TestInteropChat(t *testing.T) { judge(t, "chat.mjs", nil) }

// TestInteropKept: conversations survive reloads, other tabs, export and import, and a storage that is full, damaged or
// forbidden.
func TestInteropKept(t *testing.T) { judge(t, "kept.mjs", nil) }

// TestInteropHostile: nothing that an answer says runs or is fetched, however it is written; texts that are made to be
// slow to read end; a text costs the same in pieces; and Markdown is read as by markdown-it.
func TestInteropHostile(t *testing.T) {
	text, err := os.ReadFile("testdata/hostile.md")
	if err != nil {
		t.Fatal(err)
	}
	judge(t, "hostile.mjs", map[string]string{"hostile": string(text)})
}

// TestInteropLook: texts have a contrast of 4.5 in light and dark, nothing is wider than a telephone, and axe finds no
// fault.
func TestInteropLook(t *testing.T) {
	judge(t, "look.mjs",
		map[string]string{"wide": "A long word: " + strings.Repeat("x", 500) + "\n\n```\n" +
			strings.Repeat("long line ", 50) +
			"\n```\n\n" + strings.Repeat("| column ", 20) + "|\n" + strings.Repeat("|---", 20) + "|\n\n# " +
			strings.Repeat("y", 300) +
			"\n\n`" + strings.Repeat("z", 300) + "` https://e.org/" + strings.Repeat("u", 300)})
}
