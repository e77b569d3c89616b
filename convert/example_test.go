package convert_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
)

// Plan first, then convert: the plan says what happens to every tensor before any tensor is read.
func Example() {
	ctx := context.Background()
	plan, err := convert.NewPlan(ctx, "../testdata/tiny-bitnet",
		convert.Options{Recipe: packed.Recipe{Layout: "vnni4t", Head: "int8"}})
	if err != nil {
		log.Fatal(err)
	}
	defer plan.Close()
	for _, row := range plan.Tensors[:4] {
		fmt.Println(row.Tensor, row.Shape, row.Rule)
	}

	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	summary, err := plan.Run(ctx, filepath.Join(dir, "tiny.safetensors"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Quantized, "of", summary.Tensors, "tensors packed")
	// Output:
	// lm_head.weight [2560 256] int8
	// model.embed_tokens.weight [2560 256] keep
	// model.layers.0.input_layernorm.weight [256] keep
	// model.layers.0.mlp.down_proj.weight [256 688] absmean
	// 43 of 69 tensors packed
}
