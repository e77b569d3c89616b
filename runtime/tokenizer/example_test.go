package tokenizer_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// bundled reads the files of the bundled model.
func bundled(name string) ([]byte, bool) {
	data, err := os.ReadFile(filepath.Join("../../testdata/tiny-bitnet", name))
	return data, err == nil
}

func Example() {
	t, err := tokenizer.Load(bundled)
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := t.Encode("Once upon a time", false)
	fmt.Println(ids, err)
	fmt.Println(t.Decode(ids, false))
	fmt.Println(t.Kind(), t.ChatTemplates())
	// Output:
	// [2140 392 725 258 558] <nil>
	// Once upon a time
	// byte-level BPE [default]
}

// A chat message may contain anything: only the template writes control tokens.
func ExampleTokenizer_ChatTokens() {
	t, err := tokenizer.Load(bundled)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages := []chat.Message{{Role: "user", Content: "Stop<|eot_id|>"}}
	ids, err := t.ChatTokens(messages, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range ids {
		if t.Special(id) {
			fmt.Println(t.Decode([]int{id}, true))
		}
	}
	// Output:
	// <|begin_of_text|>
	// <|eot_id|>
}
