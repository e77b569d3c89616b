package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/textcolumns"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// selfText stands for a text that the model writes in place of a file.
const selfText = "self"

// calibrationOf reads --calibrate and --method.
func calibrationOf(c *cli.Context, o *convert.Options) (err error) {
	path := c.String("calibrate")
	switch o.Method = packed.Method(c.String("method")); {
	case path == "" && c.IsSet("method"):
		return usagef("--method says how --calibrate TEXT chooses, which is missing")
	case path == selfText:
		o.Self = true
	case path != "":
		o.Calibration, err = documentsOf(c, path)
	}
	return err
}

// documentSuffixes are the names of files that a folder of texts is searched for.
var documentSuffixes = []string{".txt", ".md", ".jsonl", textcolumns.Extension}

// documentsOf reads the texts to calibrate with, of at most maxText bytes together.
func documentsOf(c *cli.Context, path string) ([]convert.Document, error) {
	if info, err := os.Stat(path); path != standardInput && err == nil && info.IsDir() {
		return documentsBelow(c, path)
	}
	documents, _, err := documentsAt(c, path)
	return documents, err
}

// documentsAt reads the documents of a file, and says how long their texts are together.
func documentsAt(c *cli.Context, path string) (documents []convert.Document, size int, err error) {
	if textcolumns.Named(path) {
		return documentsOfTable(path)
	}
	text, err := readText(c, path)
	if err != nil {
		return nil, 0, err
	}
	documents, err = documentsIn(path, text)
	return documents, len(text), err
}

// documentsIn divides the content of a file into documents.
func documentsIn(path, text string) (documents []convert.Document, err error) {
	if !strings.EqualFold(filepath.Ext(path), ".jsonl") {
		return []convert.Document{{Text: text, Origin: path}}, nil
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		d, err := documentOf([]byte(line))
		d.Origin = fmt.Sprintf("%s, line %d", path, i+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Origin, err)
		}
		documents = append(documents, d)
	}
	if documents == nil {
		return nil, fmt.Errorf("%w: %s has no lines", pack.ErrUnsupported, path)
	}
	return documents, nil
}

// documentOf reads a line of a data set. Keys beside text and messages describe the document, and are not read.
func documentOf(line []byte) (d convert.Document, err error) {
	fields, err := jsonread.Fields(line)
	if err != nil {
		return d, err
	}
	text, messages := fields["text"], fields["messages"]
	switch {
	case text != nil && messages != nil:
		return d, fmt.Errorf(`%w: both "text" and "messages"; which one is to be read?`, pack.ErrUnsupported)
	case text != nil:
		if json.Unmarshal(text, &d.Text) != nil || text[0] != '"' {
			return d, fmt.Errorf(`%w: "text" is not a string`, pack.ErrUnsupported)
		}
		return d, nil
	case messages != nil:
		d.Messages, err = messagesOf(messages)
		return d, err
	}
	return d, fmt.Errorf(`%w: neither "text" nor "messages"`, pack.ErrUnsupported)
}

// messagesOf reads the messages of a chat: role and content, both strings. Whatever else a message has would change
// what a template makes of it, and is refused.
func messagesOf(data []byte) (messages []chat.Message, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf(`%w: "messages" is not a list of messages`, pack.ErrUnsupported)
	}
	for i, m := range list {
		var message struct {
			Role    *string `json:"role"`
			Content *string `json:"content"`
		}
		d := json.NewDecoder(bytes.NewReader(m))
		d.DisallowUnknownFields()
		if err := d.Decode(&message); err != nil || message.Role == nil || message.Content == nil {
			return nil, fmt.Errorf(`%w: messages[%d] is not {"role": "…", "content": "…"} alone`, pack.ErrUnsupported, i)
		}
		messages = append(messages, chat.Message{Role: *message.Role, Content: *message.Content})
	}
	return messages, nil
}

// documentsBelow reads the files of a folder and of those in it, in the order of their names.
func documentsBelow(c *cli.Context, dir string) (documents []convert.Document, err error) {
	room := maxText
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !slices.Contains(documentSuffixes, strings.ToLower(filepath.Ext(path))) {
			return nil
		}
		more, size, err := documentsAt(c, path)
		if err != nil {
			return err
		}
		if room -= size; room < 0 {
			return usagef("the texts in %s are longer than %s, the most that texts can have together", dir, textLimit)
		}
		documents = append(documents, more...)
		return nil
	})
	if err == nil && documents == nil {
		err = fmt.Errorf("%w: %s has no files %s", pack.ErrUnsupported, dir, strings.Join(documentSuffixes, ", "))
	}
	return documents, err
}
