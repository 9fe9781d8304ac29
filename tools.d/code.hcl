toolset "code" {
  description = "Compute with a script."
}

tool "run_javascript" {
  description = <<-EOT
    Run a script in JavaScript: exact arithmetic, dates, regular expressions, work on lists and texts. Use it instead of computing yourself, and to combine several tool calls in one: tools.NAME(arguments) calls another tool and gives its result.
    The result is the value of the last expression, or what the script returns, and what it wrote with console.log. There are no import, require, timers, files or network.
  EOT
  emoji       = "🟨"
  effect      = "read"

  param "code" {
    type        = string
    description = "The script, for example: const total = input.items.reduce((sum, i) => sum + i.price, 0); ({ total })"
    min_length  = 1
    max_length  = 262144
  }
  param "input" {
    type        = any
    description = "A JSON value that the script finds as input. Pass data here instead of pasting it into the code."
    required    = false
  }

  limits {
    timeout = "20s"
  }

  handler "wasm" {
    module = "run_javascript.wasm"
    limits {
      memory = "128MiB"
      input  = "4MiB"
    }

    # What a script may call: tools that compute, and change and reveal nothing. Without
    # this grant (and with optional = true) it computes alone.
    grant "tools" {
      allow     = ["json_query", "csv_query", "text_stats", "diff", "time_now"]
      max_depth = 2
    }
  }
}
