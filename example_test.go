package lowpack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server"
	"github.com/lowpack/lowpack/runtime/tokenizer"
	"github.com/lowpack/lowpack/verify"
)

// From a checkpoint to a packed file: what the checkpoint declares, in the default layout.
func ExampleConvert() {
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tiny.safetensors")

	o := convert.Options{Recipe: packed.Recipe{Layout: "vnni4i", Head: packed.HeadInt8}, Threads: 2}
	summary, err := lowpack.Convert(context.Background(), "testdata/tiny-bitnet", file, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d tensors packed\n", summary.Quantized, summary.Tensors)
	// Output:
	// 43 of 69 tensors packed
}

// Proof that a packed file holds what its checkpoint says, and computes what it must.
func ExampleVerify() {
	file, remove := tinyBitnet()
	defer remove()
	report, err := lowpack.Verify(context.Background(), file, verify.Options{Source: "testdata/tiny-bitnet"})
	if err != nil {
		log.Fatal(err) // the verification could not be carried out
	}
	fmt.Println("verified:", report.OK)
	for _, c := range report.Checks {
		if c.Verdict == verify.Fail {
			fmt.Println(c.Level, c.Name, c.Reason)
		}
	}
	// Output:
	// verified: true
}

// Text that continues a prompt, piece by piece: always the most likely token.
func ExampleModel_Generate() {
	file, remove := tinyBitnet()
	defer remove()
	model, err := lowpack.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	request := lowpack.Request{Prompt: "Once upon a time", MaxTokens: 16, Sampling: &engine.Sampling{}}
	for piece, err := range model.Generate(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	// Output:
	//  there was a great forest, and the King's daughter was so beautiful that she
}

// A conversation, streamed: the messages are rendered with the chat template in the file.
func ExampleModel_Generate_chat() {
	file, remove := tinyBitnet()
	defer remove()
	model, err := lowpack.OpenWith(file, engine.Options{Context: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	request := lowpack.Request{
		Messages:  []chat.Message{{Role: "user", Content: "Tell me about the forest."}},
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

// A server of OpenAI's API in a program of one's own: server.Server is an http.Handler.
func Example_serve() {
	file, remove := tinyBitnet()
	defer remove()
	f, err := packed.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	options, err := engine.Options{Context: 128, Sequences: 4}.For(f)
	if err != nil {
		log.Fatal(err)
	}
	load := func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		m, err := lowpack.OpenFile(f, options)
		if err != nil {
			return nil, nil, err
		}
		return m.Tokenizer, m.Engine, nil
	}
	s, err := server.New(server.Options{Queue: 16}, server.Model{ID: "tiny", File: f, Engine: options, Load: load})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Drain(context.Background())
	web := httptest.NewServer(s) // or http.ListenAndServe("localhost:8080", s)
	defer web.Close()

	body := strings.NewReader(`{"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}`)
	answer, err := http.Post(web.URL+"/v1/completions", "application/json", body)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var completion struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(answer.Body).Decode(&completion); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, completion.Choices[0].Text)
	// Output:
	// 200 OK  there was a great forest, and the
}

// The tensors of a packed file: codes and scales of a quantized tensor, and the bytes of a passthrough tensor.
func Example_tensors() {
	file, remove := tinyBitnet()
	defer remove()
	f, err := packed.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	e, ok := f.Manifest().Entry("model.layers.0.self_attn.q_proj.weight")
	if !ok {
		log.Fatal("no such tensor")
	}
	matrix, err := packed.Codes(f, e, 0)
	if err != nil {
		log.Fatal(err)
	}
	scales, err := packed.Scales(f, e)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Layout.Name, matrix.Shape, e.Scale, matrix.Codes[:8])
	fmt.Println("weight in row 0, column 2:", float32(matrix.Codes[2])*scales[0])

	norm, err := f.Tensor("model.norm.weight")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(norm.Name, norm.DType, norm.Shape, len(norm.Data), "bytes")
	// Output:
	// vnni4i [256, 256] tensor [0 0 -1 -1 -1 0 0 0]
	// weight in row 0, column 2: -0.09406363
	// model.norm.weight BF16 [256] 512 bytes
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
