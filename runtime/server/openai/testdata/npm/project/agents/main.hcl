# What the scenarios of client.mjs talk to: a model that answers by rules.

provider "script" "offline" {}

model "rules" {
  provider = "script.offline"

  rule {
    match = "^plain$"
    reply = "Hello from hermes."
  }

  rule {
    match = "^weather$"
    call "now" {
      step = 1
    }
    reply = "It is ${formatdate("YYYY", result.time)} at the server."
  }

  rule {
    match = "^look$"
    call "look" {
      step = 1
      args = { at = "sky" }
    }
    call "look" {
      step = 1
      args = { at = "sea" }
    }
    reply = "Seen: ${result}"
  }

  rule {
    match = "^both$"
    call "now" {
      step = 1
    }
    call "look" {
      step = 1
      args = { at = "sky" }
    }
    reply = "Both: ${result}"
  }

  rule {
    match = "^break$"
    reply = "One two three."
    fail {
      status      = 503
      after_words = 2
    }
  }

  rule {
    match = "^break ai$"
    reply = "One two three."
    fail {
      status      = 503
      after_words = 2
    }
  }

  rule {
    match = "^break langchain$"
    reply = "One two three."
    fail {
      status      = 503
      after_words = 2
    }
  }
}

agent "tester" {
  model        = "rules"
  instructions = "You answer by rules."
  toolsets     = ["clock"]
}
