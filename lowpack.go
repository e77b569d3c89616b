// Package lowpack converts, verifies and runs ultra-low-bit language models: ternary, 1-, 2- and 4-bit weights, integer
// arithmetic that is exact on every CPU.
//
// Three calls cover most programs:
//
//	summary, err := lowpack.Convert(ctx, "MODEL_DIR", file, convert.Options{}) // checkpoint → packed file
//	report, err := lowpack.Verify(ctx, file, verify.Options{})                 // prove it
//	model, err := lowpack.Open(file)                                           // run it
//
// [Open] gives a [Model]: the packed file, its tokenizer and an engine. [Model.Generate] streams text. The same packed
// file and the same [Request] give the same text on every machine, instruction set and number of threads
// (docs/NUMERICS.md).
//
// The packages below this one are for programs that need a single part:
//
//   - [github.com/lowpack/lowpack/convert] and [github.com/lowpack/lowpack/verify]: all options, reports and plans
//   - [github.com/lowpack/lowpack/runtime/engine]: batches of sequences, logits, sampling
//   - [github.com/lowpack/lowpack/runtime/tokenizer]: text to token ids, chat templates
//   - [github.com/lowpack/lowpack/formats/packed]: the packed file (docs/FORMAT.md)
//   - [github.com/lowpack/lowpack/pack]: weight layouts, codes to bytes and back
//
// # Stability
//
// Until version 1.0.0 the API may change with a minor version; CHANGELOG.md names every change. The packed file, its
// numbers and its golden outputs have versions of their own: each file states them, and a program that cannot
// read a version says so.
package lowpack

import (
	"context"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/verify"
)

// Convert turns the checkpoint at source, a model directory in Hugging Face layout, a safetensors file or a GGUF, into
// the packed file target, which appears whole or not at all. The zero Options take what the checkpoint declares. To see
// the plan first, use [convert.NewPlan].
//
// Errors name file, tensor and rule. They wrap pack.ErrCorrupt, pack.ErrUnsupported or pack.ErrLimit where the
// checkpoint or the options are the reason, and context.Cause(ctx) when ctx ended.
func Convert(ctx context.Context, source, target string, o convert.Options) (*convert.Summary, error) {
	plan, err := convert.NewPlan(ctx, source, o)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	return plan.Run(ctx, target)
}

// Verify checks a packed file at every level that the options allow, and against its checkpoint if Options.Source names
// one. What is wrong with the file is in the report (Report.OK); an error says that the verification could not be
// carried out, and the report then has what was checked before (nil: nothing).
func Verify(ctx context.Context, path string, o verify.Options) (*verify.Report, error) {
	return verify.Run(ctx, path, o)
}
