package texts

import (
	"os"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestConversation: the tokens of the golden conversation are the model's input in a chat. Every turn ends with the
// control token that the template writes; the <|eot_id|> inside a message is text.
func TestConversation(t *testing.T) {
	const eot = 2554
	got, err := From(func(name string) ([]byte, bool) {
		b, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/"+name))
		return b, err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := got[len(got)-1]
	turns := 0
	for _, id := range c.Tokens {
		if id == eot {
			turns++
		}
	}
	if c.Name != golden.ConversationName || turns != len(golden.Conversation()) {
		t.Errorf("%s of %d turns has %d ends of a turn: %v", c.Name, len(golden.Conversation()), turns, c.Tokens)
	}
}
