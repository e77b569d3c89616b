package verify

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestDeclaredOtherwise: the finding about embeddings and scores that a checkpoint declares otherwise names what
// differs, and nothing else.
func TestDeclaredOtherwise(t *testing.T) {
	pool := func(p pooling.Pooling) func(string) { return func(dir string) { sentence.Pool(t, dir, p) } }
	score := func(prompt string) func(string) {
		return func(dir string) {
			sentence.Score(t, dir, scoring.Scoring{True: 5, False: 7, Activation: scoring.Sigmoid, Format: scoring.Flat,
				Prompt: prompt})
		}
	}
	long := strings.Repeat("ü", 60)
	none := func(string) {}
	for _, c := range []struct {
		file, checkpoint func(dir string)
		want             string
	}{
		{pool(pooling.Pooling{Mode: pooling.LastToken, Normalize: true, MaxTokens: 64}),
			pool(pooling.Pooling{Mode: pooling.Mean, MaxTokens: 64}), `F26 the file makes embeddings with mode "lasttoken", ` +
				`normalize true, the checkpoint with mode "mean", no normalize`},
		{none, pool(pooling.Pooling{Mode: pooling.Mean, MaxTokens: 64}),
			"F26 the file makes no embeddings, but the checkpoint declares them (mean of all tokens, at most 64 " +
				"tokens)"},
		{score("Which?"), none, "F27 the file makes scores (logit of token 5 less that of 7, sigmoid, " +
			`prompt "Which?"), but the checkpoint declares none`},
		{score(long + "a"), score(long + "b"), `F27 the file makes scores with prompt "` + long[:78] +
			`… of 123 bytes, the checkpoint with prompt "` + long[:78] + "… of 123 bytes"},
	} {
		dirs := [2]string{filepath.Join(t.TempDir(), "of-the-file"), filepath.Join(t.TempDir(), "checkpoint")}
		for i, declare := range []func(string){c.file, c.checkpoint} {
			tinymodel.Miniature(t, "llama3-8b", dirs[i])
			declare(dirs[i])
		}
		path := tinymodel.Converted(t, dirs[0], packed.Recipe{Golden: "none"})
		text := fmt.Sprint(failed(run(t, path, Options{Source: dirs[1]})))
		if !strings.Contains(text, c.want) {
			t.Errorf("%s\nwant %s", text, c.want)
		}
	}
}
