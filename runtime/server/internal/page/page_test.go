package page

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// get asks for the page.
func get(known string) *http.Response {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	if known != "" {
		r.Header.Set("If-None-Match", known)
	}
	Serve(w, r)
	return w.Result()
}

// TestPage: the policy names every script and style that the page has; the page names no other host, and nothing in it
// makes HTML or code of a text.
func TestPage(t *testing.T) {
	html, policy := whole().html, get("").Header.Get("Content-Security-Policy")
	if kind := get("").Header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		t.Error(kind)
	}
	for element, want := range map[string]int{"script": 11, "style": 1} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(html, -1)
		if len(found) != want || strings.Count(html, "<"+element) != want {
			t.Errorf("%d of %s", len(found), element)
		}
		for _, f := range found {
			if !regexp.MustCompile(element + `-src [^;]*` + regexp.QuoteMeta(digest(f[1]))).MatchString(policy) {
				t.Errorf("%s is not in %s", digest(f[1]), policy)
			}
		}
	}
	for _, want := range []string{"default-src 'none'; ", "connect-src 'self'; ",
		"require-trusted-types-for 'script'; trusted-types 'none'"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Error(policy)
		}
	}
	active := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|DOMParser|srcdoc|document\.write|setHTML|eval\(|Function\(| style=| on[a-z]+="`)
	if found := active.FindString(html); found != "" {
		t.Errorf("%q in the page", found)
	}
	for _, host := range regexp.MustCompile(`https?://[a-z0-9.]+`).FindAllString(html, -1) {
		if host != "http://www.w3.org" { // the name of SVG, which nobody asks
			t.Errorf("%q in the page", host)
		}
	}
}

// TestPageAgain: a browser that has the page gets it again only if it is another one.
func TestPageAgain(t *testing.T) {
	tag := get("").Header.Get("Etag")
	for known, want := range map[string]int{tag: 304, "W/" + tag + `, "x"`: 304, `"x"`: 200} {
		r := get(known)
		if r.StatusCode != want || r.Header.Get("Etag") != tag || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", known, r.StatusCode, r.Header)
		}
	}
}
