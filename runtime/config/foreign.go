package config

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// What people bring from Terraform and Nomad, and what to write here instead.

func foreignBlocks() map[string]string {
	values := `Values with names stand in locals { name = … }; values given from outside in variable "NAME" { }.`
	return map[string]string{
		"local": values, "var": values, "vars": values, "variables": values,
		"resource":  `Every kind of object has a block of its own: tool "NAME" { }, model "NAME" { }, agent "NAME" { }.`,
		"data":      `Read files with file(), the environment with env().`,
		"module":    `Every file below the directory is read; there is nothing to include.`,
		"import":    `Every file below the directory is read; there is nothing to include.`,
		"include":   `Every file below the directory is read; there is nothing to include.`,
		"terraform": `Settings of the runtime stand in runtime { }.`,
		"output":    `A load has no outputs; "hermes status" shows what is live.`,
		"job":       `Agents are declared with agent "NAME" { }.`,
		"assistant": `An assistant is an agent: agent "NAME" { }.`,
		"function":  `A function that a model can call is a tool: tool "NAME" { }.`,
		"key":       `Keys stand in server { }.`,
	}
}

func foreignNames() map[string]string {
	each := "There are no loops over blocks: write each block out, or put what they share into locals."
	return map[string]string{
		"for_each": each, "count": each, "dynamic": each,
		"depends_on": "The order is found from what refers to what.",
		"lifecycle":  "A reload replaces what changed, and lets calls in flight finish.",
		"name":       "The name of a block is its label.",
	}
}

func foreignVariables() map[string]string {
	return map[string]string{
		"each":      "There are no loops over blocks. Inside a value write [for x in list : …].",
		"count":     "There are no loops over blocks. Inside a value write [for x in list : …].",
		"path":      "Paths are relative to the file they stand in: file(\"prompts/x.md\").",
		"self":      "A block cannot refer to itself. Put the value into locals and use local.NAME.",
		"data":      "Read files with file(), the environment with env().",
		"terraform": "Values from outside are variables: var.NAME.",
		"env":       "Write env(\"NAME\").",
		"locals":    "Write local.NAME.",
		"variable":  "Write var.NAME.",
		"vars":      "Write var.NAME.",
	}
}

// quotedName is how a block is named where model.main was written.
func quotedName(root string, t hcl.Traversal) string {
	var names []string
	for _, step := range t[1:] {
		if a, ok := step.(hcl.TraverseAttr); ok {
			names = append(names, a.Name)
		}
	}
	if root != "provider" && len(names) > 1 {
		names = names[:1]
	}
	return strconv.Quote(strings.Join(names, "."))
}
