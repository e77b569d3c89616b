package main

import (
	"fmt"
	"unicode/utf8"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/textcolumns"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// valueBytes is what a value counts besides its text, as in a line of JSON: many empty ones are a long text too.
const valueBytes = len(`{"text":""}` + "\n")

// maxTable bounds what is read and decompressed of a Parquet file.
const maxTable = 256 << 20

// textTable reads the documents of a Parquet file, by the rules of documentOf for lines.
type textTable struct {
	path string
	file *textcolumns.File
	size int // of the texts so far
}

// documentsOfTable reads a Parquet file with a column of texts or of messages, and says how long they are.
func documentsOfTable(path string) (documents []convert.Document, size int, err error) {
	in, err := openRegular(path)
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, 0, err
	}
	t := textTable{path: path}
	if t.file, err = textcolumns.Open(in, info.Size(), maxTable); err == nil {
		documents, err = t.documents()
	}
	if err == nil && documents == nil {
		err = fmt.Errorf("%w: it has no rows", pack.ErrUnsupported)
	}
	return documents, t.size, filerr.Named(path, err)
}

func (t *textTable) documents() ([]convert.Document, error) {
	text, messages := t.file.Below("text"), t.file.Below("messages")
	switch {
	case text != nil && messages != nil:
		return nil, fmt.Errorf(`%w: columns "text" and "messages"; which one is to be read?`, pack.ErrUnsupported)
	case text != nil:
		return t.texts(text)
	case messages != nil:
		return t.chats(messages)
	}
	return nil, fmt.Errorf(`%w: neither a column "text" nor "messages"`, pack.ErrUnsupported)
}

// texts reads a column of strings.
func (t *textTable) texts(leaves []textcolumns.Column) (documents []convert.Document, err error) {
	c := &leaves[0]
	if len(c.Path) > 1 || c.Lists > 0 || !c.Texts {
		return nil, fmt.Errorf(`%w: column "text" is not of strings`, pack.ErrUnsupported)
	}
	err = t.file.Each(c, func(v textcolumns.Value) error {
		text, err := t.text(c, len(documents), v)
		documents = append(documents, convert.Document{Text: text, Origin: t.row(len(documents))})
		return err
	})
	return documents, err
}

// chats reads a column of lists of messages, which have role and content alone.
func (t *textTable) chats(leaves []textcolumns.Column) (documents []convert.Document, err error) {
	parts := map[string]*textcolumns.Column{}
	for i := range leaves {
		c := &leaves[i]
		name := c.Path[len(c.Path)-1]
		if name != "role" && name != "content" || parts[name] != nil || c.Lists != 1 || !c.Texts {
			return nil, fmt.Errorf(`%w: column %s: messages are lists of role and content alone, which are strings`,
				pack.ErrUnsupported, c.Name())
		}
		parts[name] = c
	}
	if len(parts) != 2 {
		return nil, fmt.Errorf(`%w: column "messages" has messages without role or content`, pack.ErrUnsupported)
	}
	roles, err := t.lists(parts["role"])
	if err != nil {
		return nil, err
	}
	contents, err := t.lists(parts["content"])
	if err != nil {
		return nil, err
	}
	for row := range max(len(roles), len(contents)) {
		if row >= len(roles) || row >= len(contents) || len(roles[row]) != len(contents[row]) {
			return nil, fmt.Errorf(`%w: row %d: the messages have another number of roles than of contents`,
				pack.ErrCorrupt, row+1)
		}
		d := convert.Document{Origin: t.row(row)}
		for i, role := range roles[row] {
			d.Messages = append(d.Messages, chat.Message{Role: role, Content: contents[row][i]})
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// lists reads a column of lists of strings.
func (t *textTable) lists(c *textcolumns.Column) (rows [][]string, err error) {
	err = t.file.Each(c, func(v textcolumns.Value) error {
		if v.First {
			rows = append(rows, nil)
		}
		if rows == nil {
			return fmt.Errorf("%w: the first list has no begin", pack.ErrCorrupt)
		}
		last := len(rows) - 1
		text, err := t.text(c, last, v)
		rows[last] = append(rows[last], text)
		return err
	})
	return rows, err
}

// text counts and checks a value of a row, from 0.
func (t *textTable) text(c *textcolumns.Column, row int, v textcolumns.Value) (string, error) {
	if t.size += len(v.Text) + valueBytes; t.size > maxText {
		return "", usagef("%s has texts of more than %s, the most that texts can have together", t.path, textLimit)
	}
	switch {
	case v.Null:
		return "", fmt.Errorf("%w: row %d: %s is null or empty", pack.ErrUnsupported, row+1, c.Path[0])
	case !utf8.Valid(v.Text):
		return "", fmt.Errorf("%w: row %d: %s is not UTF-8", pack.ErrUnsupported, row+1, c.Path[0])
	}
	return string(v.Text), nil
}

func (t *textTable) row(i int) string { return fmt.Sprintf("%s, row %d", t.path, i+1) }
