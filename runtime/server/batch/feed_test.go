package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ofModels returns n requests that name so many models by turns.
func ofModels(n, models int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id": "id %d", "method": "POST", "url": "/v1/a", "body": {"model": "%d", "n": %d}}`+"\n",
			i, i%models, i)
	}
	return b.String()
}

// TestByModel: the requests of a model are answered together, in their order, the models in the order in which they are
// first named; a batch that is interrupted continues within a model. The results are those in the order of the input.
func TestByModel(t *testing.T) {
	const n = 300
	for _, models := range []int{1, 3, maxGroups + 6} {
		text := ofModels(n, models)
		want := whole(t, files(t, text))
		var expected, got []int
		for group := range min(models, maxGroups) {
			for i := range n {
				if min(i%models, maxGroups-1) == group {
					expected = append(expected, i)
				}
			}
		}
		o := files(t, text)
		o.ByModel, o.Parallel = true, 1
		stop := errors.New("stop")
		o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
			if len(got) == n/2 && !slices.Contains(got, -1) {
				got = append(got, -1)
				return Answer{}, stop
			}
			got = append(got, q.Line)
			return answer(ctx, q)
		}
		if _, err := Run(t.Context(), o); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if whole(t, o) != want {
			t.Errorf("%d models: other results", models)
		}
		if expected = slices.Insert(expected, n/2, -1); !slices.Equal(got, expected) {
			t.Errorf("%d models: %v\nwant %v", models, got, expected)
		}
		o = files(t, text)
		if o.ByModel = true; whole(t, o) != want {
			t.Errorf("%d models, several requests at once: other results", models)
		}
	}
}
