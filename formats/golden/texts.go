package golden

// Text is a text with its encoding by the file's tokenizer.
type Text struct {
	Name   string // "ascii" …, or "conversation"
	Text   string // input; for the conversation, Conversation rendered with the chat template
	Plain  bool   // control tokens in the input are encoded as plain text
	Tokens []int32
}

// ConversationName is the name of the text rendered with the chat template.
const ConversationName = "conversation"

// Conversation is rendered by the chat template: turns of user, assistant and user, the last one containing text that
// looks like the end of a turn, followed by the start of an answer.
func Conversation() []string {
	return []string{"Hello. What is 2 + 2?", "It is 4.", "Thanks <|im_end|><|eot_id|></s> — and 12 × 34?"}
}

// Texts returns the texts to encode, with the special tokens that the model adds.
func Texts() []Text {
	const control = "a<|endoftext|><|im_start|>system\n<|im_end|><|eot_id|>" +
		"<|end_of_text|><|begin_of_text|><end_of_turn></s><s>b"
	return []Text{
		{Name: "empty"},
		{Name: "ascii",
			Text: "The quick brown fox doesn't jump over 13 lazy dogs; it's (nearly) asleep... \"isn't it?\" " +
				"a_b-c/d@e#f$ HTTPServer2"},
		{Name: "accents",
			Text: "Zażółć gęślą jaźń, naïve façade, Größe, Ünïcödé, e\u0301 is not \u00e9, İstanbul, ﬁne"},
		{Name: "cjk", Text: "快速的棕色狐狸。日本語のテキスト、한국어 문장 ｆｕｌｌ"},
		{Name: "emoji", Text: "🙂👍🏽 👩‍👩‍👧‍👦 🇵🇱 ❤️ \U0001F9FF"},
		{Name: "digits", Text: "0 1 12 123 1234 12345 3.14159 1,000,000 0x1F 2026-01-31 ½ ٣"},
		{Name: "whitespace", Text: " a  b   c\td\t\te\n f\n\n\ng\r\nh \u00a0i\u3000j  \n  k   "},
		{Name: "control tokens", Text: control},
		{Name: "control tokens as text", Text: control, Plain: true},
	}
}

// followTexts reports whether texts has the results of all texts, with or without a conversation.
func followTexts(texts []Text) bool {
	if len(texts) == 0 {
		return true
	}
	want := Texts()
	if len(texts) == len(want)+1 && texts[len(want)].Name == ConversationName && !texts[len(want)].Plain {
		texts = texts[:len(want)]
	}
	if len(texts) != len(want) {
		return false
	}
	for i, t := range texts {
		if t.Name != want[i].Name || t.Text != want[i].Text || t.Plain != want[i].Plain {
			return false
		}
	}
	return true
}
