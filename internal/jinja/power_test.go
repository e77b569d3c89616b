package jinja

import "testing"

// TestPower: powers are exact where they fit 64 bits.
func TestPower(t *testing.T) {
	for source, want := range map[string]string{
		"10 ** 18": "1000000000000000000", "3 ** 39": "4052555153018976267", "(-2) ** 63": "-9223372036854775808",
		"2 ** 62": "4611686018427387904", "0 ** 0": "1", "0 ** 1000000000000": "0", "(-1) ** 1000000000001": "-1",
		"2 ** -1":  "0.5",
		"10 ** 19": "",
	} {
		if got, err := render("{{ "+source+" }}", &Dict{}); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
}
