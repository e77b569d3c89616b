package questions

import (
	"slices"
	"strings"
	"testing"
)

// TestSentences: sentences are joined by "|", blocks by "||".
func TestSentences(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"word":                             "",
		"word.":                            "word.",
		"One  two.\nThree\tfour! Five?":    "One two.|Three four!|Five?",
		"One.\r\nTwo.\r\n\r\nThree.":       "One. Two.|Three.",
		"One.\rTwo.\r\rThree.":             "One. Two.|Three.",
		"\uFEFFOne.":                       "One.",
		"CHAPTER I\n\nOne.\n \nTwo.":       "One.|Two.",
		"One.\n\nCHAPTER II\n\nTwo.":       "One.||Two.",
		"One.\n\n* * *\n\nTwo.":            "One.||Two.",
		"And said:\n\n\"I'll--\"\n\nNo.":   `And said:|"I'll--"|No.`,
		"The end--said he.":                "The end--said he.",
		`"TOM!" he said. "TOM!" No.`:       `"TOM!" he said.|"TOM!"|No.`,
		"«Non!» «Et pourtant.» (Oui.) Bon": "",
		"«Non!» «Et pourtant.» (Oui.)":     "«Non!»|«Et pourtant.»|(Oui.)",
		"“Go.” ‘Why…’ “‘Ah!’”":             "“Go.”|‘Why…’|“‘Ah!’”",
		"Mr. Hyde met Mrs. A. B. Shaw.":    "Mr. Hyde met Mrs. A. B. Shaw.",
		"In St. Louis, U.S. Army men. Ok.": "In St. Louis, U.S. Army men.|Ok.",
		"It was Tom. He ran away.":         "It was Tom. He ran away.",
		`He said "Tom." He ran away.`:      `He said "Tom."|He ran away.`,
		"Prof. Hyde came.":                 "Prof.|Hyde came.",
		"Around 3.5 m. 4 of them, e.g. x.": "Around 3.5 m.|4 of them, e.g. x.",
		"Ärger. Über alles. éclair.":       "Ärger.|Über alles. éclair.",
		"Привет. Мир! да.":                 "Привет.|Мир! да.",
		"他来了。「走吧！」她说。":                     "他来了。|「走吧！」|她说。",
		"One. -- Two.":                     "One. -- Two.",
		"他走！？她来。":                          "他走！？|她来。",
		"他走？！……」她来。":                       "他走？！……」|她来。",
		"他们走了\n很远。\n她 来。":                  "他们走了很远。|她来。",
		"“走！”“好！”":                         "“走！”|“好！”",
		"他在“家”\nABC。":                      "他在“家”ABC。",
		"カナ\nかな。":                          "カナかな。",
		"用\nLinux 的人。One two.":             "用Linux的人。|One two.",
		"가나 다.\n라.":                        "가나 다.|라.",
		"¿Qué? ¡No! ¿y?":                   "¿Qué?|¡No! ¿y?",
		"Vamos. —¿Adónde? – Aquí. – no.":   "Vamos.|—¿Adónde? – Aquí. – no.",
		"Vamos. —¿Adónde? –Aquí.":          "Vamos.|—¿Adónde?|–Aquí.",
		"One.\u00a0\u2003Two.":             "One. Two.",
		"'":                                "",
	} {
		var got []string
		for block := range Sentences(text) {
			got = append(got, strings.Join(block, "|"))
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == "" })
		if s := strings.Join(got, "||"); s != want {
			t.Errorf("%q: %q, want %q", text, s, want)
		}
	}
}
