package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

func tokenizeCommand() *cli.Command {
	return &cli.Command{
		Name:      "tokenize",
		Usage:     "turn text into token ids, or back",
		ArgsUsage: "PATH [TEXT]",
		UsageText: "lowpack tokenize PATH [TEXT] [flags]",
		Description: `PATH is a packed file, a model directory, a GGUF or a tokenizer.json. Without TEXT, -p or --file the text is read from
standard input as it is; it has at most ` + textLimit +
			`. Ids are separated by spaces; no end of line is added to what --decode writes.

  lowpack tokenize model.safetensors "Once upon a time"
  lowpack tokenize MODEL_DIR --file book.txt > ids.txt
  lowpack tokenize MODEL_DIR --decode --file ids.txt`,
		Flags: append(textFlags("to tokenize, or with --decode the ids"), []cli.Flag{
			plainFlag(),
			&cli.BoolFlag{Name: "decode", Usage: "from ids to text"},
			&cli.BoolFlag{Name: "special",
				Usage: "add the tokens around a text (begin of text, for most); with --decode show control tokens"},
		}...),
		Action: runTokenize,
	}
}

func runTokenize(c *cli.Context) error {
	text, err := readTokenized(c)
	if err != nil {
		return err
	}
	path, err := checkpointOf(c, c.Args().First())
	if err != nil {
		return err
	}
	t, err := loadTokenizer(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(dataOf(c.App.Writer), 1<<16)
	if c.Bool("decode") {
		err = decodeIDs(out, t, text, c.Bool("special"))
	} else {
		err = printIDs(out, t, text, c.Bool("special"), c.Bool(plainFlagName))
	}
	return errors.Join(err, out.Flush())
}

// readTokenized reads the text from the argument after the path, or as run does.
func readTokenized(c *cli.Context) (string, error) {
	if c.NArg() != 2 {
		if err := wantArgs(c, 1, "PATH, or PATH and TEXT"); err != nil {
			return "", err
		}
		return readPrompt(c)
	}
	if hasText(c) {
		return "", usagef("TEXT behind the path cannot be combined with -p or --file")
	}
	return c.Args().Get(1), nil
}

// plainFlagName is llama.cpp's name for the same option.
const plainFlagName = "no-parse-special"

func plainFlag() cli.Flag {
	return &cli.BoolFlag{Name: plainFlagName, Usage: "treat control tokens written in the text as plain text"}
}

func encodeText(t *tokenizer.Tokenizer, text string, special, plain bool) ([]int, error) {
	if plain {
		return t.EncodePlain(text, special)
	}
	return t.Encode(text, special)
}

func printIDs(w io.Writer, t *tokenizer.Tokenizer, text string, special, plain bool) error {
	ids, err := encodeText(t, text, special, plain)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if i > 0 {
			fmt.Fprint(w, " ")
		}
		fmt.Fprint(w, id)
	}
	_, err = fmt.Fprintln(w)
	return err
}

func decodeIDs(w io.Writer, t *tokenizer.Tokenizer, text string, special bool) error {
	var ids []int
	for _, field := range strings.Fields(text) {
		id, err := strconv.Atoi(field)
		if err != nil || id < 0 || id >= t.Size() {
			return fmt.Errorf("%w: %q is not a token id; want an integer between 0 and %d", pack.ErrCorrupt, field,
				t.Size()-1)
		}
		ids = append(ids, id)
	}
	_, err := io.WriteString(w, t.Decode(ids, special))
	return err
}

// loadTokenizer reads the tokenizer of a packed file, of a model directory or a GGUF, or a tokenizer.json.
func loadTokenizer(path string) (*tokenizer.Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, filekind.Missing(path, err)
	}
	if info.IsDir() || checkpoint.IsGGUF(path) {
		files, err := checkpoint.ReadTexts(path)
		if err != nil {
			return nil, err
		}
		return load(path, func(name string) ([]byte, bool) { b, ok := files[name]; return b, ok })
	}
	if filepath.Ext(path) == ".json" {
		data, err := readSmall(path, modelfile.Limit("tokenizer.json"))
		if err != nil {
			return nil, err
		}
		return load(path, func(name string) ([]byte, bool) { return data, name == "tokenizer.json" })
	}
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return load(path, f.Embedded)
}

func load(path string, files tokenizer.Files) (*tokenizer.Tokenizer, error) {
	t, err := tokenizer.Load(files)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	return t, nil
}
