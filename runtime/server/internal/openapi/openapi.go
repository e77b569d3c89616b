// Package openapi generates the OpenAPI document of a server: endpoints, request schemas, and the status codes of each
// endpoint.
package openapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/internal/version"
)

// Kind holds what endpoints of a kind have in common.
type Kind struct {
	Statuses []int    // status codes besides 200
	content  []string // media types of status 200
}

// Route is an endpoint. Path is a pattern of http.ServeMux.
type Route struct {
	Method, Path string
	Kind         Kind
}

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// Kinds of endpoints. All of them check host and origin, so 403 is always possible.
var (
	Probe = Kind{[]int{http.StatusForbidden, http.StatusServiceUnavailable}, []string{typeJSON}}
	Page  = Kind{[]int{http.StatusNotModified, http.StatusForbidden}, []string{"text/html"}}
	Texts = Kind{[]int{http.StatusUnauthorized, http.StatusForbidden}, []string{"text/plain"}}
	Facts = Kind{[]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout}, []string{typeJSON}} // files of models may have to be opened
	Named  = Kind{append([]int{http.StatusNotFound}, Facts.Statuses...), []string{typeJSON}}
	Tokens = Kind{append([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType}, Named.Statuses...), []string{typeJSON}}
	Generate = Kind{append([]int{http.StatusTooManyRequests, http.StatusInternalServerError}, Tokens.Statuses...),
		[]string{typeJSON, typeStream}}
	Whole  = Kind{Generate.Statuses, []string{typeJSON}} // computed, and never streamed
	Stored = Kind{append([]int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError},
		Tokens.Statuses...), []string{typeJSON}}
	Managed = Kind{append([]int{http.StatusConflict}, Tokens.Statuses...), []string{typeJSON}}
	Content = Kind{append([]int{http.StatusPartialContent, http.StatusNotModified,
		http.StatusRequestedRangeNotSatisfiable, http.StatusInternalServerError}, Named.Statuses...),
		[]string{"application/octet-stream"}}
)

// object is a JSON object.
type object = map[string]any

// Document returns the OpenAPI 3.1 document of the routes.
func Document(routes []Route, l Limits) any {
	paths := map[string]object{}
	bodies := l.bodies()
	for _, r := range routes {
		path := strings.NewReplacer("{$}", "", "...", "").Replace(r.Path)
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(r.Method)] = r.operation(path, bodies[path], l.Example)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "lowpack serve", "version": version.Version,
			"description": "docs/REQUESTS.md documents the fields. A request that satisfies its schema gets status " +
				"400 only with a code in the error: the server or the model does not support it."},
		"paths": paths,
		"components": object{"schemas": object{"Error": errorSchema},
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}}},
		"security": []object{{}, {"key": []string{}}},
	}
}

var errorSchema = object{"type": "object", "required": []string{"error"}, "properties": object{"error": object{
	"type": "object", "required": []string{"message", "type", "param", "code"},
	"properties": object{"message": object{"type": "string"}, "type": object{"type": "string"},
		"param": object{"type": []string{"string", "null"}}, "code": object{"type": []string{"string", "null"}}},
}}}

// operation returns the operation object of a route.
func (r *Route) operation(path string, body object, example string) object {
	content := object{}
	for _, name := range r.Kind.content {
		content[name] = object{"schema": object{}}
		if name == typeJSON {
			content[name] = object{"schema": object{"type": "object"}}
		}
	}
	responses := object{"200": object{"description": http.StatusText(http.StatusOK), "content": content}}
	for _, status := range r.Kind.Statuses {
		response := object{"description": http.StatusText(status)}
		if status >= http.StatusBadRequest {
			response["content"] = object{typeJSON: object{"schema": object{"$ref": "#/components/schemas/Error"}}}
		}
		responses[strconv.Itoa(status)] = response
	}
	o := object{"operationId": strings.ToLower(r.Method) +
		strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_").Replace(path), "responses": responses}
	if strings.Contains(path, "{id}") {
		o["parameters"] = []object{{"name": "id", "in": "path", "required": true, "example": example,
			"schema": object{"type": "string"}}}
	}
	if body != nil {
		o["requestBody"] = object{"required": true, "content": object{typeJSON: object{"schema": body}}}
	}
	return o
}
