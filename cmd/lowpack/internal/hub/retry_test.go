package hub

import (
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
)

// TestGivesUp: a server that sends nothing new, next to nothing, or the same again is tried a few times; one that makes
// progress each time, up to a limit. The bytes are kept, and the error says so.
func TestGivesUp(t *testing.T) {
	const endless = 1 << 20
	for what, c := range map[string]struct {
		hub  *fakeHub
		want int // requests
		says string
	}{
		"nothing":     {&fakeHub{cut: endless}, transfer.Tries, "0 of 320000 bytes"},
		"a byte each": {&fakeHub{cut: endless, cutAt: 1}, transfer.Tries, "5 of 320000 bytes"},
		"the same again": {&fakeHub{cut: endless, cutAt: 50_000, noRange: true}, 1 + transfer.Tries,
			"50000 of 320000 bytes"},
		"one more each, from the beginning": {&fakeHub{cut: endless, noRange: true, grow: 1}, transfer.Tries,
			" of 320000 bytes"},
		"a little each": {&fakeHub{cut: endless, cutAt: transfer.Enough,
			files: map[string][]byte{"model.safetensors": make([]byte, 2*transfer.MaxTries*transfer.Enough)}},
			transfer.MaxTries, strconv.Itoa(transfer.MaxTries*transfer.Enough) + " of "},
		"other ranges": {&fakeHub{front: only(http.StatusPartialContent)}, transfer.Tries, "0 of 320000 bytes"},
		"no range at all": {&fakeHub{front: only(http.StatusRequestedRangeNotSatisfiable)}, transfer.Tries,
			"0 of 320000 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			if c.hub.files == nil {
				c.hub.files = oneFile()
			}
			h := newHub(t, c.hub)
			client := h.client()
			client.Pause = time.Nanosecond
			_, err := client.Pull(t.Context(), name(t, h.id), nil)
			refusal{says: c.says}.check(t, err, "model.safetensors", "tries)", "the same command continues",
				"HF_ENDPOINT")
			if n := len(h.requests); n != c.want {
				t.Errorf("%d requests, want %d", n, c.want)
			}
			left := leftovers(t, client.Cache)
			if len(left) != 1 {
				t.Fatal(left)
			}
			if info, err := os.Stat(left[0]); err != nil || info.Size() > int64(len(h.files["model.safetensors"])) {
				t.Error(info, err)
			}
		})
	}
}
