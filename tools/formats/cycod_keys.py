"""The keys of a CYCOD tool file: the format as data, for reading, checking and documenting it."""

from __future__ import annotations

from tools.formats.fields import Key, Keys, Kind, table
from tools.formats.platforms import NAMES as PLATFORMS
from tools.formats.tool_tests import TESTS

TYPES = ("string", "number", "boolean", "array", "object")
"""What a parameter can be (C42)."""

_JSON_TYPES = (*TYPES, "integer")

_PLATFORM_COMMANDS = table(
    *(Key(name, Kind.COMMAND, f"the command on {name}") for name in PLATFORMS)
)

_COMMANDS = table(
    Key("default", Kind.COMMAND, "the command where no entry of platforms fits"),
    Key("platforms", Kind.MAP, "commands by operating system", keys=_PLATFORM_COMMANDS),
)

_EXECUTION = (
    Key("bash", Kind.COMMAND, "a command for bash"),
    Key("cmd", Kind.COMMAND, "a command for Windows CMD"),
    Key("pwsh", Kind.COMMAND, "a command for PowerShell"),
    Key("run", Kind.COMMAND, "a program and its arguments, started without a shell"),
    Key("script", Kind.COMMAND, "a script of several lines, for the program that shell names"),
    Key(
        "shell",
        Kind.NAME,
        "the program that runs script; on Windows cmd unless given",
        default="bash",
    ),
    Key("commands", Kind.MAP, "one command per operating system", keys=_COMMANDS),
)

_RETRY = table(
    Key("attempts", Kind.COUNT, "further runs after a failure", default=0),
    Key(
        "delay",
        Kind.DELAY,
        "milliseconds before the first further run",
        default=0,
    ),
    Key(
        "backoff",
        Kind.TEXT,
        "whether the delay doubles each time",
        choices=("exponential", "fixed"),
        default="exponential",
    ),
)

_OUTPUT = table(
    Key(
        "mode", Kind.TEXT, "show output at the end or as it comes",
        choices=("buffer", "stream"), default="buffer",
    ),
    Key("buffer-limit", Kind.SIZE, "how much of each stream is kept", default="10MB"),
    Key("truncation", Kind.FLAG, "cut what is over the limit; false: fail instead", default=True),
    Key(
        "stream-callback", Kind.TEXT, "where streamed lines go; file: a log whose path is shown",
        choices=("console", "file", "function"), default="console",
    ),
    Key("masked-values", Kind.TEXTS, "values shown as asterisks, such as {API_KEY}"),
)  # fmt: skip

STEP = table(
    Key("name", Kind.NAME, "what other steps call it", required=True),
    *_EXECUTION,
    Key("use-tool", Kind.NAME, "another tool to run"),
    Key("with", Kind.VALUES, "arguments for that tool"),
    Key("timeout", Kind.DEADLINE, "milliseconds the step may take"),
    Key("continue-on-error", Kind.FLAG, "go on after this step failed", default=False),
    Key("run-condition", Kind.EXPRESSION, 'run only when this is true: "{step1.exit-code} == 0"'),
    Key("parallel", Kind.FLAG, "start without waiting for earlier steps", default=False),
    Key(
        "wait-for", Kind.TEXTS,
        "names of steps to wait for; not given: all before it, for a parallel step none",
    ),
    Key(
        "error-handling", Kind.MAP, "what to do after a failure",
        keys=table(
            Key("retry", Kind.MAP, "run it again", keys=_RETRY),
            Key("fallback", Kind.COMMAND, "a command for when all runs failed"),
        ),
    ),
    Key("output", Kind.MAP, "what becomes of its output", keys=_OUTPUT),
)  # fmt: skip

VALIDATION = table(
    Key("minLength", Kind.COUNT, "least characters of a string"),
    Key("maxLength", Kind.COUNT, "most characters of a string"),
    Key("pattern", Kind.TEXT, "regular expression a string must match somewhere"),
    Key("minimum", Kind.NUMBER, "least number"),
    Key("maximum", Kind.NUMBER, "greatest number"),
    Key("enum", Kind.VALUE_LIST, "the values allowed"),
)

PARAMETER = table(
    Key("type", Kind.TEXT, "what it is", choices=TYPES, default="string"),
    Key("description", Kind.TEXT, "what it means, for the model", required=True, fatal=False),
    Key("required", Kind.FLAG, "whether every call must give it", default=False),
    Key(
        "default", Kind.VALUE,
        "its value when it is not given; may hold placeholders, such as {OWNER}/{REPO}",
    ),
    Key("validation", Kind.MAP, "rules for its value", keys=VALIDATION),
    Key(
        "transform", Kind.TEXT,
        "a named transform such as lowercase, or a JavaScript expression over value",
    ),
    Key("format", Kind.TEXT, "how it stands in the command: --count={value}"),
    Key("examples", Kind.VALUE_LIST, "example values"),
    Key("detailed-help", Kind.TEXT, "more about it, for people"),
    Key(
        "security", Kind.MAP, "how it reaches a shell",
        keys=table(
            Key(
                "escape-shell", Kind.FLAG,
                "not given: a value outside of quotes is split into words, all of them data; "
                "true: it is one word; false: it is pasted as text, a high risk",
            )
        ),
    ),
    Key(
        "delimiter", Kind.TEXT,
        "what joins the elements of an array; not given: each is a word of its own",
    ),
    Key(
        "path", Kind.FLAG,
        "whether it is a path, for file-paths.normalize; DIRECTORY, PATH, *_DIR and *_PATH are",
    ),
    Key("deprecated", Kind.DEPRECATION, "that it should not be used any more"),
    Key("deprecated-alternative", Kind.TEXT, "the parameter to use instead"),
)  # fmt: skip

_FUNCTION_CALLING = table(
    Key(
        "schema-generation", Kind.MAP, "how parameters become JSON Schema",
        keys=table(
            Key(
                "parameter-mapping", Kind.MAP, "JSON type for each parameter type",
                keys=table(
                    *(Key(t, Kind.TEXT, f"for {t}", choices=_JSON_TYPES) for t in TYPES)
                ),
            ),
            Key("include-descriptions", Kind.FLAG, "tell the model the descriptions", default=True),
            Key("include-defaults", Kind.FLAG, "tell the model the defaults", default=True),
            Key("example-generation", Kind.FLAG, "tell the model the examples", default=False),
            Key(
                "sanitize-schemas", Kind.FLAG,
                "leave validation rules out that do not fit the type", default=True,
            ),
        ),
    )
)  # fmt: skip

_SECURITY = table(
    Key(
        "execution-privilege", Kind.TEXT,
        "the rights it runs with; elevated is always asked about, reduced writes only what it "
        "declares",
        choices=("same-as-user", "reduced", "elevated"), default="same-as-user",
    ),
    Key(
        "isolation", Kind.TEXT,
        "what it runs in, or it is refused; none is the same as process",
        choices=("none", "process", "sandbox", "container"), default="process",
    ),
    Key(
        "required-permissions", Kind.TEXTS,
        "what it needs, such as filesystem:write:{DIR}; shown and matched by rules, and held to in "
        "a sandbox or container",
    ),
    Key("justification", Kind.TEXT, "why, for the person who is asked"),
)  # fmt: skip

_ENVIRONMENT = table(
    Key(
        "variables",
        Kind.VARIABLES,
        "environment variables; {NAME} is a parameter, else a variable of your environment",
    ),
    Key(
        "inherit",
        Kind.FLAG,
        "keep the environment opta has; false: PATH, HOME, LANG and the like only",
        default=True,
    ),
    Key("secrets", Kind.TEXTS, "names of variables whose values show as asterisks"),
)

_FILE_PATHS = table(
    Key("normalize", Kind.FLAG, "treat paths for the operating system", default=False),
    Key(
        "working-directory", Kind.TEXT,
        "where it runs, the workspace unless given; working-directory at the top comes first",
    ),
    Key("temp-directory", Kind.TEXT, "where each call makes a temporary directory of its own"),
    Key(
        "cross-platform", Kind.MAP, "separators of paths",
        keys=table(
            Key("windows-separator", Kind.TEXT, "always \\", choices=("\\",), fatal=False),
            Key("unix-separator", Kind.TEXT, "always /", choices=("/",), fatal=False),
            Key("auto-convert", Kind.FLAG, "turn separators to those of the system", default=False),
        ),
    ),
)  # fmt: skip

_METADATA = table(
    Key("category", Kind.TEXT, "for tool list --category"),
    Key("subcategory", Kind.TEXT, "a finer category"),
    Key("tags", Kind.TEXTS, "for searching; they say nothing about security"),
    Key("search-keywords", Kind.TEXTS, "further words it is found by"),
)

_RESOURCES = table(
    Key("timeout", Kind.DEADLINE, "milliseconds a call may take; the smaller of two counts"),
    Key("max-memory", Kind.SIZE, "memory its processes may use together, or each of them"),
    Key(
        "cleanup", Kind.LIST, "what is done at the end, whatever happened",
        keys=table(
            Key(
                "delete-temp-files", Kind.FLAG,
                "delete the temporary directory of the call", default=False,
            ),
            Key("final-command", Kind.COMMAND, "a command to run"),
        ),
    ),
)  # fmt: skip

TOOL: Keys = table(
    Key("name", Kind.NAME, "what the model calls it by; the file name unless given"),
    Key("description", Kind.TEXT, "what it does and when to use it", required=True),
    Key("version", Kind.VERSION, "the version of the tool", fatal=False),
    Key("min-cycod-version", Kind.VERSION, "the oldest CYCOD level it works with"),
    Key("min-opta-version", Kind.VERSION, "the oldest opta it works with"),
    *_EXECUTION,
    Key("steps", Kind.LIST, "several commands", keys=STEP),
    Key("type", Kind.TEXT, "alias: another tool with other defaults", choices=("alias",)),
    Key("base-tool", Kind.NAME, "the tool an alias stands for"),
    Key("default-parameters", Kind.VALUES, "the arguments an alias gives unless a call does"),
    Key("parameters", Kind.NAMED, "what a call can say", keys=PARAMETER),
    Key("function-calling", Kind.MAP, "what the model is told", keys=_FUNCTION_CALLING),
    Key("security", Kind.MAP, "the rights it needs", keys=_SECURITY),
    Key("environment", Kind.MAP, "environment variables", keys=_ENVIRONMENT),
    Key("file-paths", Kind.MAP, "directories and paths", keys=_FILE_PATHS),
    Key("metadata", Kind.MAP, "for finding it", keys=_METADATA),
    TESTS,
    Key(
        "timeout", Kind.DEADLINE,
        "milliseconds a call may take, with all steps, retries and waits", default=60000,
    ),
    Key("working-directory", Kind.TEXT, "where it runs, the workspace unless given"),
    Key("platforms", Kind.TEXTS, "operating systems it works on", choices=PLATFORMS),
    Key(
        "tags", Kind.TEXTS,
        "for searching and rules; read, write and run say how much it can do, none: a high risk",
    ),
    Key(
        "ignore-errors", Kind.FLAG,
        "go on after any step failed, and report success", default=False,
    ),
    Key("input", Kind.TEXT, "what its processes read from stdin"),
    Key("interactive", Kind.FLAG, "whether it asks the person something", default=False),
    Key(
        "interactive-options", Kind.MAP, "for interactive tools without a person",
        keys=table(
            Key(
                "timeout", Kind.DEADLINE,
                "milliseconds before the default answer is given", default=30000,
            ),
            Key("default-response", Kind.TEXT, "the default answer"),
        ),
    ),
    Key("resources", Kind.MAP, "limits of a call, and what follows it", keys=_RESOURCES),
    Key(
        "changelog", Kind.LIST, "what changed, for people",
        keys=table(
            Key("version", Kind.VERSION, "the version", fatal=False),
            Key("changes", Kind.TEXTS, "what changed"),
        ),
    ),
    Key("deprecated", Kind.DEPRECATION, "that it should not be used any more"),
    Key("deprecated-message", Kind.TEXT, "what to use instead"),
)  # fmt: skip
