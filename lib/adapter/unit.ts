import { XferError } from "../errors.ts";

/** What a service manager needs to run an Adapter Daemon. */
export interface Unit {
	/** The Node's name. */
	readonly node: string;
	/** The command line, its first word an absolute path. */
	readonly argv: readonly string[];
	readonly cwd: string;
	readonly env: Readonly<Record<string, string>>;
	/** Seconds that it may take to end: as long as a handler may run, and a moment. */
	readonly stop: number;
}

/** Exit codes after which trying again helps nobody: wrong usage. */
const hopeless = 2;

/** A systemd user unit, with how to install it in its comment. */
export function systemdUnit({ node, argv, cwd, env, stop }: Unit): string {
	const unit = `xfer-${node}.service`;
	const lines = Object.entries(env).map(([key, value]) => `Environment=${quote(`${key}=${value}`)}`);
	return `# ~/.config/systemd/user/${unit}
# then: systemctl --user daemon-reload && systemctl --user enable --now ${unit}
# to run without a login: loginctl enable-linger
[Unit]
Description=xfer Adapter Daemon of ${node}

[Service]
Type=exec
ExecStart=${argv.map((word) => quote(word).replaceAll("$", "$$$$")).join(" ")}
WorkingDirectory=${cwd.replaceAll("%", "%%")}
${lines.join("\n")}${lines.length > 0 ? "\n" : ""}KillMode=mixed
TimeoutStopSec=${stop}
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=${hopeless}

[Install]
WantedBy=default.target
`;
}

/**
 * A launchd agent, with how to install it in its comment.
 * @throws {XferError} EINPUT when a word holds a control character that XML can't hold
 */
export function launchdPlist({ node, argv, cwd, env, stop }: Unit): string {
	const label = `xfer.${node}`;
	const pairs = Object.entries(env).map(([key, value]) => `\t\t<key>${xml(key)}</key>\n\t\t<string>${xml(value)}</string>\n`);
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ~/Library/LaunchAgents/${label}.plist
     then: launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/${label}.plist -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>${xml(label)}</string>
	<key>ProgramArguments</key>
	<array>
${argv.map((word) => `\t\t<string>${xml(word)}</string>\n`).join("")}	</array>
	<key>WorkingDirectory</key>
	<string>${xml(cwd)}</string>
	<key>EnvironmentVariables</key>
	<dict>
${pairs.join("")}	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>10</integer>
	<key>ExitTimeOut</key>
	<integer>${stop}</integer>
</dict>
</plist>
`;
}

/** A word as systemd reads it back: in quotes, with C escapes; `%` begins a specifier. */
function quote(text: string): string {
	const escaped = text
		.replace(/["\\]/g, "\\$&")
		.replaceAll("%", "%%")
		// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not stand in a line
		.replace(/[\x00-\x1f\x7f]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
	return /^[A-Za-z0-9_./:=,@+-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

function xml(text: string): string {
	// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML can't hold
	if (/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(text))
		throw new XferError("EINPUT", "a launchd plist can't hold control characters", "put the command into a script");
	const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;" };
	return text.replace(/[&<>\r]/g, (char) => entities[char] ?? char);
}
