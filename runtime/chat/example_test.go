package chat_test

import (
	"fmt"

	"github.com/lowpack/lowpack/runtime/chat"
)

func Example() {
	t, err := chat.Parse("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}")
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := map[string]string{"eos_token": "</s>"}
	text, err := t.Render([]chat.Message{{Role: "user", Content: "Hi</s>"}}, tokens, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text.S)
	for i := range text.S { // the role and the first </s> came with the message
		fmt.Print(text.Input[i])
	}
	// Output:
	// <|user|>Hi</s></s>
	// 001111001111110000
}
