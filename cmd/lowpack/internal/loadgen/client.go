package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// client sends the requests of a load.
type client struct {
	Options
	http *http.Client
}

// result is the result of a request.
type result struct {
	err    error
	ttft   time.Duration   // from the planned time to the first text
	itl    []time.Duration // between pieces of text
	e2el   time.Duration   // from the planned time to the end
	output int             // tokens
}

// tpot returns the time per output token after the first one.
func (r *result) tpot() time.Duration {
	if r.output < 2 {
		return 0
	}
	return (r.e2el - r.ttft) / time.Duration(r.output-1)
}

// mostFrame bounds a frame of a stream.
const mostFrame = 1 << 20

// ask sends a request whose latency counts from the time from.
func (c *client) ask(ctx context.Context, prompt []int, from time.Time) (r result) {
	body, _ := json.Marshal(map[string]any{ // of JSON
		"model":          c.Model,
		"prompt":         prompt,
		"max_tokens":     c.Output,
		"ignore_eos":     true,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	// not sent; net/http asks again where a server closed an idle connection at that moment
	request.Header["Idempotency-Key"] = nil
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return result{err: err}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
		return result{err: fmt.Errorf("status %d: %s", answer.StatusCode, bytes.TrimSpace(text))}
	}
	r.err = r.read(answer.Body, from)
	return r
}

// frame holds the fields of a frame that are used.
type frame struct {
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
	Choices []struct {
		Text   string  `json:"text"`
		Reason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// read records the arrival time of each piece of a stream.
func (r *result) read(stream io.Reader, from time.Time) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, mostFrame)
	last, ended := from, false
	for lines.Scan() {
		data, isData := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !isData || string(data) == "[DONE]" {
			continue
		}
		now := time.Now()
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("a frame that is not JSON: %w", err)
		}
		if f.Error != nil {
			return errors.New(f.Error.Message)
		}
		if f.Usage != nil {
			r.output = f.Usage.Completion
		}
		if len(f.Choices) == 0 {
			continue
		}
		if ended = ended || f.Choices[0].Reason != nil; f.Choices[0].Text == "" {
			continue
		}
		if r.ttft == 0 {
			r.ttft = now.Sub(from)
		} else {
			r.itl = append(r.itl, now.Sub(last))
		}
		last = now
	}
	r.e2el = last.Sub(from)
	switch {
	case lines.Err() != nil:
		return lines.Err()
	case !ended:
		return errors.New("the stream ended without finish_reason")
	case r.output == 0:
		return errors.New("the stream has no usage")
	}
	return nil
}
