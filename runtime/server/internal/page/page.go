// Package page is the chat that the server shows to browsers: one file that asks nothing of other hosts.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

//go:embed chat.html
var chat string

// policy lets a browser run what stands in the file and ask this server, and nothing else.
var policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src " + digest("script") + "; style-src " + digest("style") +
		"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
})

// digest names the content of an element of the file.
func digest(element string) string {
	_, rest, _ := strings.Cut(chat, "<"+element+">")
	content, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Serve answers with the page.
func Serve(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy())
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // it belongs to the version of the server
	api.LimitWrite(w)
	w.Write([]byte(chat))
}
