package transfer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestSlow: slow bytes keep a connection alive only if they add up.
func TestSlow(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	text := strings.Repeat("x", 3*Enough+5)
	d := &Download{Out: out, Size: int64(len(text)), Hash: sha256.New, Moved: func(int64) {}}
	if had, err := d.Open(); err != nil || had != 0 {
		t.Fatal(had, err)
	}
	alive := 0
	if err := d.read(iotest.OneByteReader(strings.NewReader(text)), func() { alive++ }); err != nil || alive != 3 {
		t.Errorf("%d signs of life in 3 times %d bytes, %v", alive, Enough, err)
	}
	if sum := sha256.Sum256([]byte(text)); !bytes.Equal(d.Sum(), sum[:]) {
		t.Errorf("digest %x, want %x", d.Sum(), sum)
	}
}

// TestStart: a download after other bytes of a file continues its own, and nothing else.
func TestStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("before|begun and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var moved int64
	d := &Download{Out: out, Start: 7, Size: 5, Hash: sha256.New, Moved: func(n int64) { moved += n }}
	if had, err := d.Open(); err != nil || had != 5 || moved != 5 {
		t.Fatal(had, moved, err)
	}
	if sum := sha256.Sum256([]byte("begun")); !bytes.Equal(d.Sum(), sum[:]) {
		t.Errorf("digest %x, want %x", d.Sum(), sum)
	}
	if text, err := os.ReadFile(path); string(text) != "before|begun and more" {
		t.Errorf("%q, %v", text, err)
	}
	if err := d.Restart(); err != nil || moved != 0 {
		t.Error(moved, err)
	}
	if text, err := os.ReadFile(path); string(text) != "before|" {
		t.Errorf("%q, %v", text, err)
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
			p := Patience{Pause: time.Second}
			asked, began := 0, time.Now()
			err := p.Retry(t.Context(), func() (int64, error) {
				asked++
				header := http.Header{"Retry-After": {text}}
				return 0, StatusOf(&http.Response{StatusCode: http.StatusTooManyRequests, Header: header}, "")
			})
			var s *StatusError
			if !errors.As(err, &s) || asked != Tries {
				t.Errorf("%q: %v after %d tries", text, err, asked)
			}
			sum := time.Duration(0)
			for i := range Tries - 1 {
				sum += max(want, p.Pause<<i)
			}
			if took := time.Since(began); took != sum {
				t.Errorf("%q: waited %s, want %s", text, took, sum)
			}
		})
	}
}

func TestOriginOf(t *testing.T) {
	for text, want := range map[string]string{
		"https://Example.COM/a?b":    "https://example.com:443",
		"http://example.com:443":     "http://example.com:443",
		"https://u:p@example.com:44": "https://example.com:44",
		"http://[::1]/":              "http://[::1]:80",
	} {
		u, err := url.Parse(text)
		if err != nil || OriginOf(u) != want {
			t.Errorf("%s: %s, %v", text, OriginOf(u), err)
		}
	}
}

// TestPlain: connection errors name the address, if any, and never the URL.
func TestPlain(t *testing.T) {
	down := errors.New("no such host")
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	for want, err := range map[string]error{
		"no such host": &url.Error{Op: "Get", URL: "https://x/?signature=1",
			Err: &net.OpError{Op: "dial", Err: down}},
		"127.0.0.1:9: no such host": &url.Error{Op: "Get", URL: "https://x/?signature=1",
			Err: &net.OpError{Op: "dial", Addr: address, Err: down}},
	} {
		if got := Plain(err); got.Error() != want || !errors.Is(got, down) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
