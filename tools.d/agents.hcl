toolset "agents" {
  description = "Work for other agents. An agent that names some in agents has it, unless it says otherwise; no other agent has."
}

tool "delegate" {
  emoji      = "🤝"
  effect     = "write"
  parallel   = true
  idempotent = true # a repeat finds the run of the first call

  limits {
    timeout     = "30m"
    concurrency = 0 # one that waits holds its place, and the agent below may want one too
  }
  result {
    max_chars = 24000
  }

  handler "native" {
    function = "agent.run"
  }
}
