# A model without a network: it answers from rules, the first that matches the message.
# The calls it makes run through the same loop, checks and limits as those of a real
# model, so it shows what the runtime does before there is a key.

model "offline" {
  provider       = "script.offline"
  context_window = 128000

  # Count the words in: to be or not to be
  rule {
    match = "(?is)\\b(?:count|how many)\\b.*?\\bwords\\b[^:\"]*(?:\"(?P<quoted>[^\"]+)\"|:\\s*(?P<rest>.+?)\\s*$)"

    call "text_stats" {
      args = { text = match.quoted != "" ? match.quoted : match.rest, top = 3 }
    }
    call "time_now" {
      args = { timezone = "UTC" }
    }

    reply = try(
      "${results[0].words} words, ${results[0].characters} characters. Counted by the WASM tool text_stats; the native tool time_now says it is ${results[1].weekday}, ${results[1].time}.",
      "A tool failed: ${jsonencode(results)}",
    )
  }

  # Compute [1, 2, 3].map(n => n ** 2)
  rule {
    match = "(?is)^\\s*(?:compute|calculate)\\s+(?P<code>.+?)\\s*$"

    call "run_javascript" {
      args = { code = match.code }
    }

    reply = try(
      "The value of the script is ${jsonencode(result.result)}.",
      "The script failed: ${result.error.message}",
    )
  }

  # What time is it in Europe/Oslo?
  rule {
    match = "(?i)\\bwhat(?:'s| is)? (?:the )?(?:time|date|day)\\b(?:.*?\\bin (?P<zone>[A-Za-z]+/[A-Za-z_/]+))?"

    call "time_now" {
      args = { timezone = match.zone == "" ? "UTC" : match.zone }
    }

    reply = try(
      "It is ${result.weekday}, ${result.time} (${result.timezone}).",
      "The tool failed: ${result.error.message}",
    )
  }

  # Write "buy milk" to notes/todo.md
  rule {
    match = "(?is)\\bwrite\\s+\"(?P<text>.+)\"\\s+to\\s+(?P<path>[\\w./-]+\\w)"

    call "file_write" {
      args = { path = match.path, content = "${match.text}\n" }
    }
    call "file_read" {
      step = 2
      args = { path = match.path }
    }

    reply = try(
      "Written and read back from ${result.path}:\n\n${result.content}",
      "A tool failed: ${jsonencode(results)}",
    )
  }

  # List the files
  rule {
    match = "(?i)\\b(?:list|show|which)\\b.*\\bfiles\\b"

    call "file_list" {
      args = { depth = 3, limit = 50 }
    }

    reply = try(
      result.total == 0 ? "The workspace is empty. Try: Write \"buy milk\" to notes/todo.md" : "${result.total} entries in the workspace: ${join(", ", [for e in result.entries : e.path])}",
      "The tool failed: ${result.error.message}",
    )
  }

  # Search the files for milk
  rule {
    match = "(?i)\\bsearch\\b.*\\bfiles\\b.*\\bfor\\s+\"?(?P<pattern>[^\"]+?)\"?\\s*$"

    call "file_search" {
      args = { pattern = match.pattern, limit = 20 }
    }

    reply = try(
      "${length(result.matches)} matches in ${result.searched_files} files: ${jsonencode(result.matches)}",
      "The tool failed: ${result.error.message}",
    )
  }

  rule {
    match = ".*"
    reply = <<-EOT
      This is the offline model; it answers from the rules in agents/offline.hcl. Try:

      - Count the words in: to be or not to be
      - Compute [1, 2, 3].map(n => n ** 2)
      - What time is it in Europe/Oslo?
      - Write "buy milk" to notes/todo.md
      - List the files
      - Search the files for milk

      Set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server, to use a real model.
    EOT
  }
}
