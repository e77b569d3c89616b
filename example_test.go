package lowpack_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
	"github.com/lowpack/lowpack/verify"
)

// From a checkpoint to text: convert, verify, generate.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tiny.safetensors")

	summary, err := lowpack.Convert(ctx, "testdata/tiny-bitnet", file, convert.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d tensors packed\n", summary.Quantized, summary.Tensors)

	report, err := lowpack.Verify(ctx, file, verify.Options{Source: "testdata/tiny-bitnet"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("verified:", report.OK)

	model, err := lowpack.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	for piece, err := range model.Generate(ctx, lowpack.Request{Prompt: "Once upon a time", MaxTokens: 16, Sampling: &engine.Sampling{}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	// Output:
	// 42 of 68 tensors packed
	// verified: true
	//  there was a great forest, and the King's daughter was so beautiful that she
}

// A conversation: the messages are rendered with the chat template in the file.
func ExampleModel_Generate() {
	file, remove := tinyBitnet()
	defer remove()
	model, err := lowpack.OpenWith(file, engine.Options{Context: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	request := lowpack.Request{
		Messages:  []tokenizer.Message{{Role: "user", Content: "Tell me about the forest."}},
		MaxTokens: 12,
		Sampling:  &engine.Sampling{Temperature: 0.8, TopK: 40, Seed: 1},
	}
	for piece, err := range model.Generate(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	// Output:
	// The third is just about to fetch me a pipe
}

// tinyBitnet converts the bundled model to a temporary file.
func tinyBitnet() (file string, remove func()) {
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		log.Fatal(err)
	}
	file = filepath.Join(dir, "tiny.safetensors")
	if _, err := lowpack.Convert(context.Background(), "testdata/tiny-bitnet", file, convert.Options{}); err != nil {
		log.Fatal(err)
	}
	return file, func() { os.RemoveAll(dir) }
}
