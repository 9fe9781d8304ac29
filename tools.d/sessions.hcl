toolset "sessions" {
  description = "What was said in earlier conversations of the same user."
}

tool "session_search" {
  emoji = "🔎"

  handler "native" {
    function = "session.search"
  }
}
