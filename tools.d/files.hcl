# Files below one folder. No path and no link leads out of it.

locals {
  workspace = "../workspace"
}

toolset "files" {
  description = "Read, write, list and search files in the workspace."
}

tool "file_read" {
  handler "native" {
    function = "file.read"
    config   = { root = local.workspace }
  }
}

tool "file_write" {
  # One at a time, so that two writes of a file happen one after the other.
  limits {
    concurrency = 1
  }

  handler "native" {
    function = "file.write"
    config   = { root = local.workspace }
  }
}

tool "file_list" {
  handler "native" {
    function = "file.list"
    config   = { root = local.workspace }
  }
}

tool "file_search" {
  handler "native" {
    function = "file.search"
    config   = { root = local.workspace }
  }
}
