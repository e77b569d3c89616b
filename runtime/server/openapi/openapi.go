// Package openapi describes a server in the form that tools read: which endpoints there are, what they take, and every status
// that they answer with.
package openapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/version"
)

// Kind is what an endpoint has in common with others.
type Kind struct {
	Statuses []int    // besides 200
	content  []string // media types of an answer with status 200
}

// Route is an endpoint. Its path is written as for http.ServeMux.
type Route struct {
	Method, Path string
	Kind         Kind
}

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// The kinds of endpoints. Keys and hosts are checked in front of all of them.
var (
	Probe    = Kind{[]int{http.StatusForbidden, http.StatusServiceUnavailable}, []string{typeJSON}}
	Page     = Kind{[]int{http.StatusForbidden}, []string{"text/html"}}
	Texts    = Kind{[]int{http.StatusUnauthorized, http.StatusForbidden}, []string{"text/plain"}}
	Facts    = Kind{[]int{http.StatusUnauthorized, http.StatusForbidden}, []string{typeJSON}}
	Named    = Kind{append([]int{http.StatusNotFound}, Facts.Statuses...), []string{typeJSON}}
	Tokens   = Kind{append([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable}, Named.Statuses...), []string{typeJSON}}
	Generate = Kind{append([]int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout}, Tokens.Statuses...), []string{typeJSON, typeStream}}
)

// object is a JSON object of the document.
type object = map[string]any

// Document describes routes.
func Document(routes []Route) any {
	paths := map[string]object{}
	for _, r := range routes {
		path := strings.NewReplacer("{$}", "", "...", "").Replace(r.Path)
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(r.Method)] = r.operation(path)
	}
	return object{
		"openapi":    "3.1.0",
		"info":       object{"title": "lowpack serve", "version": version.Version, "description": "docs/SERVER.md says what fields mean."},
		"paths":      paths,
		"components": object{"schemas": object{"Error": errorSchema}, "securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}}},
		"security":   []object{{}, {"key": []string{}}},
	}
}

var errorSchema = object{"type": "object", "required": []string{"error"}, "properties": object{"error": object{
	"type": "object", "required": []string{"message", "type", "param", "code"},
	"properties": object{"message": object{"type": "string"}, "type": object{"type": "string"}, "param": object{"type": []string{"string", "null"}}, "code": object{"type": []string{"string", "null"}}},
}}}

// operation describes a route.
func (r *Route) operation(path string) object {
	content := object{}
	for _, name := range r.Kind.content {
		content[name] = object{"schema": object{}}
		if name == typeJSON {
			content[name] = object{"schema": object{"type": "object"}}
		}
	}
	responses := object{"200": object{"description": http.StatusText(http.StatusOK), "content": content}}
	for _, status := range r.Kind.Statuses {
		responses[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": object{typeJSON: object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
	}
	o := object{"operationId": strings.ToLower(r.Method) + strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_").Replace(path), "responses": responses}
	if strings.Contains(path, "{id}") {
		o["parameters"] = []object{{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}}}
	}
	if schema := bodies[path]; schema != nil {
		o["requestBody"] = object{"required": true, "content": object{typeJSON: object{"schema": schema}}}
	}
	return o
}

// The types of fields of requests.
var (
	text     = object{"type": "string"}
	boolean  = object{"type": "boolean"}
	integer  = object{"type": "integer"}
	anything = object{}
	list     = object{"type": "array"}
	idList   = object{"type": "array", "items": object{"type": "integer"}}
)

// sampled are the fields that all endpoints that generate have in common.
var sampled = object{
	"model": text, "temperature": object{"type": "number", "minimum": 0, "maximum": 2}, "top_p": object{"type": "number", "minimum": 0, "maximum": 1},
	"top_k": object{"type": "integer", "minimum": -1}, "min_p": object{"type": "number", "minimum": 0, "maximum": 1}, "repetition_penalty": object{"type": "number", "exclusiveMinimum": 0, "maximum": 100},
	"frequency_penalty": object{"type": "number", "minimum": -2, "maximum": 2}, "presence_penalty": object{"type": "number", "minimum": -2, "maximum": 2},
	"logit_bias": object{"type": "object"}, "seed": object{"type": "integer", "format": "int64"}, "stop": anything, "stop_token_ids": idList,
	"ignore_eos": boolean, "min_tokens": object{"type": "integer", "minimum": 0}, "stream": boolean, "guided_json": anything, "guided_regex": text, "guided_choice": list,
}

// conversation are those of a chat.
var conversation = object{
	"messages": list, "tools": list, "chat_template_kwargs": object{"type": "object"}, "reasoning_effort": text, "documents": list,
	"add_generation_prompt": boolean, "continue_final_message": boolean,
}

// bodies are the schemas of requests by path.
var bodies = map[string]object{
	"/v1/completions": bodyOf("prompt", sampled, object{
		"prompt": anything, "max_tokens": integer, "n": integer, "logprobs": integer, "echo": boolean, "stream_options": object{"type": "object"}, "response_format": object{"type": "object"},
	}),
	"/v1/chat/completions": bodyOf("messages", sampled, conversation, object{
		"max_tokens": integer, "max_completion_tokens": integer, "n": integer, "logprobs": boolean, "top_logprobs": integer,
		"stream_options": object{"type": "object"}, "response_format": object{"type": "object"}, "tool_choice": anything, "parallel_tool_calls": boolean,
	}),
	"/v1/responses": bodyOf("input", sampled, object{
		"input": anything, "instructions": text, "max_output_tokens": integer, "text": object{"type": "object"}, "reasoning": object{"type": "object"},
		"include": list, "top_logprobs": integer, "tools": list, "tool_choice": anything, "parallel_tool_calls": boolean, "truncation": object{"enum": []string{"disabled"}},
	}),
	"/tokenize": bodyOf("", conversation, object{
		"content": text, "prompt": text, "add_special": boolean, "add_special_tokens": boolean, "with_pieces": boolean, "return_token_strs": boolean,
	}),
	"/detokenize":     bodyOf("tokens", object{"tokens": idList}),
	"/apply-template": bodyOf("messages", conversation),
}

// bodyOf is a schema with the fields of some groups, one of which is required.
func bodyOf(required string, groups ...object) object {
	fields := object{}
	for _, g := range groups {
		for name, schema := range g {
			fields[name] = schema
		}
	}
	schema := object{"type": "object", "properties": fields}
	if required != "" {
		schema["required"] = []string{required}
	}
	return schema
}
