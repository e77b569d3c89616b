package page

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestPage: the policy names the script and the style that the page has, once each; the page names no other host, and writes
// texts as texts.
func TestPage(t *testing.T) {
	w := httptest.NewRecorder()
	Serve(w, httptest.NewRequest(http.MethodGet, "/", nil))
	html, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	if kind := w.Header().Get("Content-Type"); kind != "text/html; charset=utf-8" {
		t.Error(kind)
	}
	for _, element := range []string{"script", "style"} {
		if strings.Count(html, "<"+element) != 1 || !strings.Contains(policy, element+"-src "+digest(element)+";") {
			t.Errorf("%s: %s", element, policy)
		}
	}
	if digest("script") == digest("style") || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
	if found := regexp.MustCompile(`https?://|//[a-z]+\.|innerHTML|insertAdjacent|eval\(| style=| on[a-z]+="`).FindString(html); found != "" {
		t.Errorf("%q in the page", found)
	}
}
