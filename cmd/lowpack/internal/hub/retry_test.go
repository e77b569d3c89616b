package hub

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestGivesUp: a server that sends nothing new, next to nothing, or the same again is tried a few times; one that makes
// progress each time, up to maxTries. The bytes are kept, and the error says so.
func TestGivesUp(t *testing.T) {
	const endless = 1 << 20
	for what, c := range map[string]struct {
		hub  *fakeHub
		want int // requests
		says string
	}{
		"nothing":        {&fakeHub{cut: endless}, tries, "0 of 320000 bytes"},
		"a byte each":    {&fakeHub{cut: endless, cutAt: 1}, tries, "5 of 320000 bytes"},
		"the same again": {&fakeHub{cut: endless, cutAt: 50_000, noRange: true}, 1 + tries, "50000 of 320000 bytes"},
		"one more each, from the beginning": {&fakeHub{cut: endless, noRange: true, grow: 1}, tries,
			" of 320000 bytes"},
		"a little each": {&fakeHub{cut: endless, cutAt: enough,
			files: map[string][]byte{"model.safetensors": make([]byte, 2*maxTries*enough)}},
			maxTries, strconv.Itoa(maxTries*enough) + " of "},
		"other ranges":    {&fakeHub{front: only(http.StatusPartialContent)}, tries, "0 of 320000 bytes"},
		"no range at all": {&fakeHub{front: only(http.StatusRequestedRangeNotSatisfiable)}, tries, "0 of 320000 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			if c.hub.files == nil {
				c.hub.files = oneFile()
			}
			h := newHub(t, c.hub)
			client := h.client()
			client.pause = time.Nanosecond
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

// TestSlow: slow bytes keep a connection alive only if they add up.
func TestSlow(t *testing.T) {
	h := newHub(t, &fakeHub{})
	c := h.client()
	e, err := c.entry(name(t, h.id))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.folder("blobs"); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 3*enough+5)
	d := &download{client: c, entry: e, file: file{"f", int64(len(text)), blobOf([]byte(text))}, moved: func(int64) {}}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	defer d.out.Close()
	alive := 0
	if err := d.read(iotest.OneByteReader(strings.NewReader(text)), func() { alive++ }); err != nil || alive != 3 {
		t.Errorf("%d signs of life in 3 times %d bytes, %v", alive, enough, err)
	}
	if err := d.finish(); err != nil {
		t.Error(err)
	}
}

// TestRetryAfter: Retry-After is respected, within limits.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, "60": maxPause, "86400": maxPause, "9223372036": maxPause, "9223372037": maxPause,
		"9223372036854775807":           maxPause,
		"99999999999999999999":          0,
		"-1":                            0,
		"1e3":                           0,
		"Wed, 21 Oct 2099 07:28:00 GMT": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{pause: time.Second}
			asked, began := 0, time.Now()
			err := c.retry(t.Context(), func() (int64, error) {
				asked++
				header := http.Header{"Retry-After": {text}}
				return 0, statusOf(&http.Response{StatusCode: http.StatusTooManyRequests, Header: header})
			})
			var s *statusError
			if !errors.As(err, &s) || asked != tries {
				t.Errorf("%q: %v after %d tries", text, err, asked)
			}
			sum := time.Duration(0)
			for i := range tries - 1 {
				sum += max(want, c.pause<<i)
			}
			if took := time.Since(began); took != sum {
				t.Errorf("%q: waited %s, want %s", text, took, sum)
			}
		})
	}
}
