package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lowpack/lowpack/runtime/engine"
)

// Two sequences in one batch: the weights are read once for both, and each gets the same logits as it would alone.
func Example() {
	e, err := engine.Open("../../testdata/hostile/packed/P00.safetensors",
		engine.Options{Threads: 1, Context: 16, Sequences: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	var batch []engine.Chunk
	for _, prompt := range [][]int{{1, 5, 9}, {1, 7}} {
		seq, err := e.NewSequence()
		if err != nil {
			log.Fatal(err)
		}
		batch = append(batch, engine.Chunk{Seq: seq, Tokens: prompt, Logits: make([]float32, e.Description().Vocab)})
	}
	if err := e.Forward(context.Background(), batch); err != nil {
		log.Fatal(err)
	}
	for _, c := range batch {
		fmt.Println("after", c.Tokens, "the argmax token is", engine.ArgMax(c.Logits))
	}
	// Output:
	// after [1 5 9] the argmax token is 4
	// after [1 7] the argmax token is 5
}
