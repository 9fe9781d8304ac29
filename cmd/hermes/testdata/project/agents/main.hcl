# A small project without modules, for the scripts.

variable "greeting" {
  type    = string
  default = "Hello"
}

provider "script" "offline" {}

model "offline" {
  provider = "script.offline"

  rule {
    match = "what day"

    call "clock" {}

    reply = "A day: ${endswith(result.weekday, "day")}."
  }

  rule {
    match = "^hello"
    reply = "${var.greeting}, you said ${input}."
  }
}

# One word every 50 ms: long enough to be interrupted.
model "slow" {
  provider = "script.offline"
  delay    = "50ms"

  rule {
    match = "."
    reply = join(" ", [for i in range(1000) : "word${i}"])
  }
}

agent "assistant" {
  description  = "Tells the day."
  model        = "offline"
  instructions = "Tell the day."
  toolsets     = ["*"]

  disabled_tools = ["secret_files"]
}

agent "slow" {
  model        = "slow"
  instructions = "Take your time."
}
