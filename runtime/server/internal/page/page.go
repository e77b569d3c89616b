// Package page serves the chat for browsers: one document that loads nothing from other hosts.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

//go:embed page.html page.css *.js
var files embed.FS

// document is the page as it is sent.
type document struct {
	html, policy, tag string
}

var part = regexp.MustCompile(`<script src="([a-z]+\.js)"></script>|<link rel="stylesheet" href="([a-z]+\.css)">`)

// whole puts the scripts and the style where page.html names them. Its policy lets a browser run these, by their
// digests, and ask this server, and nothing else; nor does the browser make HTML of a text there.
var whole = sync.OnceValue(func() *document {
	scripts, styles := "", ""
	html := part.ReplaceAllStringFunc(read("page.html"), func(reference string) string {
		name := part.FindStringSubmatch(reference)
		if name[1] != "" {
			text := read(name[1])
			scripts += " " + digest(text)
			return "<script>" + text + "</script>"
		}
		text := read(name[2])
		styles += " " + digest(text)
		return "<style>" + text + "</style>"
	})
	return &document{
		html: html,
		policy: "default-src 'none'; script-src" + scripts + "; style-src" + styles +
			"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"require-trusted-types-for 'script'; trusted-types 'none'",
		tag: fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(html))),
	}
})

// read returns a file of the binary.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil { // a mistake in page.html
		panic(err)
	}
	return string(text)
}

// digest names the content of an element.
func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Serve answers with the page, or says that the browser has it.
func Serve(w http.ResponseWriter, r *http.Request) {
	d, h := whole(), w.Header()
	h.Set("Content-Security-Policy", d.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // it belongs to the version of the server
	h.Set("Etag", d.tag)
	if strings.Contains(r.Header.Get("If-None-Match"), d.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	api.LimitWrite(w)
	w.Write([]byte(d.html))
}
