package verify

import (
	"bytes"
	"os"
	"testing"
)

func TestSmall(t *testing.T) {
	path := file(t, small(t))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, path, Options{})
	var text bytes.Buffer
	r.Text(&text)
	t.Logf("%d bytes\n%s", info.Size(), text.String())
	if !r.OK {
		t.Error("a good file fails")
	}
}
