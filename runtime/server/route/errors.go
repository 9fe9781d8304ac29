package route

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// StatusError is an error whose HTTP status is not the one of its kind, for example a
// missing key (401) or a method that is not allowed (405).
type StatusError struct {
	Status int
	Err    *fault.Error
}

// Error renders the error for logs.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap gives the fault.
func (e *StatusError) Unwrap() error { return e.Err }

// Status is the HTTP status of any error.
func Status(err error) int {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Status
	}
	return fault.KindOf(err).HTTPStatus()
}

type nativeError struct {
	Error fault.Body `json:"error"`
}

type openAIError struct {
	Error openAIBody `json:"error"`
}

type openAIBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// ErrorJSON is the body of an error in a shape.
func ErrorJSON(shape Shape, err error) []byte {
	var body any
	if shape == OpenAI {
		body = openAIError{openAIOf(err)}
	} else {
		body = nativeError{fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err), Detail: detail(err)}}
	}
	out, merr := json.Marshal(body)
	if merr != nil {
		// Only a Detail can fail to encode; the rest stands without it.
		return ErrorJSON(shape, fault.New(fault.KindOf(err), "%s", fault.Message(err)))
	}
	return out
}

func detail(err error) any {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Detail
	}
	return nil
}

func openAIOf(err error) openAIBody {
	status := Status(err)
	code := fault.KindOf(err).String()
	switch status {
	case http.StatusUnauthorized:
		code = "invalid_api_key"
	case http.StatusTooManyRequests:
		code = "rate_limit_exceeded"
	}
	body := openAIBody{Message: fault.Message(err), Type: openAIType(status), Code: &code}
	if f, ok := detail(err).(Field); ok {
		body.Param = &f.Field
	}
	return body
}

// openAIType is the class of error that clients know for a status.
func openAIType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// WriteError answers with an error.
func WriteError(w http.ResponseWriter, shape Shape, err error) error {
	return writeBody(w, Status(err), ErrorJSON(shape, err))
}
