#!/bin/sh
# xfer.sh: takes part in an xfer tree with a POSIX shell and its usual tools (dash; busybox with its own applets).
#
#   sh xfer.sh send alice hello                  as a command; `sh xfer.sh help` lists them
#   . ./xfer.sh; xfer_send alice hello           or sourced, from a script that is not itself called xfer or xfer.sh
#
# The text that it follows is protocol.md; numbers in brackets are its sections. Functions that end in a command's name
# are that command; they run in a subshell, so a script that sources this keeps its variables, options and directory.
# Bodies may hold any bytes and never pass through a variable. A NUL in a header is not supported: shells drop it.
# Status: 0 done, 1 failed, 2 wrong usage, 3 not there, 5 somebody else's, 6 done for some.

xfer_join() (xfer_main join "$@")
xfer_send() (xfer_main send "$@")
xfer_inbox() (xfer_main inbox "$@")
xfer_read() (xfer_main read "$@")
xfer_mark() (xfer_main mark "$@")
xfer_reply() (xfer_main reply "$@")
xfer_recall() (xfer_main recall "$@")
xfer_live() (xfer_main live "$@")
xfer_doctor() (xfer_main doctor "$@")
# For a script that is a Node itself: XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE; xfer_lock_acquire NAME || exit
# then xfer_lock_refresh NAME every 5 s (1: the lock is lost), and xfer_lock_release NAME at the end.
xfer_instance() (xfer_main instance)
xfer_lock_acquire() (xfer_main lock_acquire "$@")
xfer_lock_refresh() (xfer_main lock_refresh "$@")
xfer_lock_release() (xfer_main lock_release "$@")

# What a person sees who asks, or who typed something else.
xfer_help() {
	cat <<-'END'
		xfer.sh send alice "the text"            words, or - for standard input; send a,b review this - <diff
		xfer.sh inbox [NODE] [--all]             id, date, state, kind, from, subject
		xfer.sh read [ID] [--take | --peek]      the oldest, or that one
		xfer.sh mark ID|PATH read|new|failed [WHY...]
		xfer.sh reply ID "the text"
		xfer.sh recall ID
		xfer.sh join NAME                        makes a Node
		xfer.sh live NAME CMD...                 is that Node while CMD runs
		xfer.sh doctor --json FILE               what a reader sees in a file
		Options: --as NAME (else $XFER_NODE, else the login name); send and reply: --kind K --subject S
		--priority urgent|normal|low --expires 30m --key K --re ID. Words that begin with a dash come after --
	END
}

# Runs a command with the settings that all of them rely on, whatever those of a script that sources this are.
xfer_main() {
	set +Cefu
	_command=${1:-}
	case $_command in
	join | send | inbox | read | mark | reply | recall | live | doctor | instance | lock_acquire | lock_refresh | lock_release) shift ;;
	help | -h | --help) xfer_help && exit ;;
	'') xfer_help >&2 && exit 2 ;;
	*) xfer_die 2 "no command '$_command' (xfer.sh help lists them)" ;;
	esac
	_nl='
'
	IFS=" 	$_nl"
	_root=${XFER_HOME:-${HOME:-}/.xfer} _inst=
	case $_root in [!/]*) xfer_die 2 "XFER_HOME is not an absolute path: $_root (or unset it, to use ~/.xfer)" ;; esac
	_max=${XFER_MAX_BYTES:-1048576} _lease=${XFER_LEASE:-600} _refresh=${XFER_REFRESH:-5} _stale=${XFER_STALE:-15}
	case $_max$_lease$_refresh$_stale in *[!0123456789]*) xfer_die 2 "XFER_MAX_BYTES, XFER_LEASE, XFER_REFRESH and XFER_STALE are whole numbers" ;; esac
	case ${XFER_INSTANCE:-} in ????????) case $XFER_INSTANCE in *[!0123456789abcdefghjkmnpqrstvwxyz]*) ;; *) _inst=$XFER_INSTANCE ;; esac ;; esac
	if [ "$_command" = live ]; then _umask=$(umask) _locale=${LC_ALL-unset}; fi # given back to CMD
	umask 077
	LC_ALL=C # bytes: for the order of names, and for lengths
	export LC_ALL
	"xfer_do_$_command" "$@"
}

# Says what went wrong, with nothing in it that a terminal would obey, and ends the command.
xfer_die() {
	_status=$1 _message=$2
	case $_message in *[!\ -~]*) _message=$(printf %s "$_message" | tr -c ' -~' '?') ;; esac
	printf 'xfer: %s\n' "$_message" >&2
	exit "$_status"
}

# Splits a command line: options that $1 allows go to _o_NAME, the first word to _first, the others, joined, to _words.
xfer_args() {
	_allowed=" $1 " _count=0 _first='' _words='' _dash='' _verbatim=''
	_o_as='' _o_kind='' _o_subject='' _o_priority='' _o_expires='' _o_key='' _o_re='' _o_all='' _o_take='' _o_peek='' _o_json=''
	shift
	while [ $# -gt 0 ]; do
		_word=$1
		shift
		case $_verbatim$_word in
		--) _verbatim=v && continue ;;
		-) _dash=1 && continue ;;
		-*)
			_name=${_word#--} _value=1
			case $_word in *=*) _name=${_name%%=*} _value=${_word#*=} ;; esac
			case $_name in *[!a-z]*) _name=- ;; esac
			case $_allowed in
			*" $_name= "*)
				case $_word in
				*=*) ;;
				*)
					[ $# -gt 0 ] || xfer_die 2 "--$_name needs a value"
					_value=$1
					shift
					;;
				esac
				;;
			*" $_name "*) ;;
			*) xfer_die 2 "no option $_word here (words that begin with a dash come after --; see xfer.sh help)" ;;
			esac
			eval "_o_$_name=\$_value"
			continue
			;;
		esac
		case $_count in
		0) _first=$_word ;;
		1) _words=$_word ;;
		*) _words="$_words $_word" ;;
		esac
		_count=$((_count + 1))
	done
}

# The name that $1 means, folded, in _name; 1: it is no name for a Node [3].
xfer_name() {
	_name=$1
	case $1 in '' | *[!A-Za-z0-9._-]* | [._-]*) return 1 ;; *[A-Z]*) _name=$(printf %s "$1" | tr A-Z a-z) ;; esac
	case $_name in all | unknown) return 1 ;; esac
	[ ${#_name} -le 63 ]
}

# Finds the Node that $1 names: its own name in _name, its directory in _dir; 1: there is none. Refuses what is no name.
xfer_node() {
	xfer_name "$1" || xfer_die 2 "'$1' is not a Node name (1 to 63 of a-z 0-9 . _ -, the first a letter or digit; not all, unknown)"
	_dir=$_root/nodes/$_name
	if [ -L "$_dir" ]; then
		_target=$(readlink "$_dir") && _target=${_target#./} && xfer_name "$_target" && [ "$_name" = "$_target" ] || return 1
		_dir=$_root/nodes/$_name
	fi
	[ -d "$_dir" ] && ! [ -L "$_dir" ]
}

# Makes what the Node in $_dir lacks, with its parents.
xfer_make() {
	[ -d "$_dir/tmp" ] && [ -d "$_dir/cur" ] && [ -d "$_dir/sent" ] && [ -d "$_dir/new" ] && return
	mkdir -p "$_dir/tmp" "$_dir/cur" "$_dir/sent" "$_dir/new" || xfer_die 1 "can't make the Node $_name (a sandbox may forbid it: allow writing to $_root)"
	xfer_sync "$_dir" "$_root/nodes" "$_root"
}

# Who acts: --as, XFER_NODE or the login name. Its Node's name in _me, its directory in _home; 1: it has no Node yet.
xfer_me() {
	_me=${_o_as:-${XFER_NODE:-}}
	xfer_node "${_me:-$(id -un)}"
	_status=$? _me=$_name _home=$_dir
	return $_status
}

# Goes to the directory of the Node that acts, which must be there.
xfer_enter() {
	xfer_me || xfer_die 3 "no Node '$_me' in $_root (to make it: xfer.sh join $_me)"
	cd "$_home" || exit 1
}

# The time in _now (unix seconds) and _date, $1 random bytes in _pool: with one process each.
xfer_clock() {
	_bytes=$1
	# shellcheck disable=SC2046 # numbers and a date
	set -- $(date -u '+%s %Y-%m-%dT%H:%M:%S.000Z' && od -An -v -tu1 -N"$1" /dev/urandom)
	[ $# -eq $((_bytes + 2)) ] || xfer_die 1 "no random bytes from /dev/urandom"
	_now=$1 _date=$2
	shift 2
	_pool=$*
}

# 8 digits of Crockford's base32 in _digits, from 8 bytes of the pool.
xfer_digits() {
	_digits='' _bytes=$_pool _pool=''
	set -- 0 1 2 3 4 5 6 7 8 9 a b c d e f g h j k m n p q r s t v w x y z
	for _byte in $_bytes; do
		if [ ${#_digits} -lt 8 ]; then eval "_digits=\$_digits\${$((_byte % 32 + 1))}"; else _pool="$_pool $_byte"; fi
	done
}

# A new id in _new, from 14 bytes of the pool [4]; POSIX date has no microseconds, so M is random.
xfer_id() {
	xfer_digits
	# shellcheck disable=SC2086 # numbers
	set -- $_pool
	_new=$_now.M$(($1 % 10))$(($2 % 10))$(($3 % 10))$(($4 % 10))$(($5 % 10))$(($6 % 10))R$_digits
	shift 6
	_pool=$*
	xfer_host
	_new=$_new.$_host_id
}

# This host's name in _host, and as it stands in an id in _host_id.
xfer_host() {
	read -r _host 2>/dev/null </proc/sys/kernel/hostname || _host=$(uname -n)
	_host_id=$_host
	case $_host in *[!A-Za-z0-9._-]*) _host_id=$(printf %s "$_host" | tr -c A-Za-z0-9._- _) ;; esac
}

# fsync of files and directories [9]. 1: the system says no.
xfer_sync() {
	[ "${XFER_DURABILITY:-}" = none ] || ! command -v sync >/dev/null || sync "$@"
}

# Takes a file name apart [4]: _id; _a, _e and the lease _l, which ends at _end and is _by an instance; _more fields; _flags.
xfer_split() {
	_id=${1##*/} _a=0 _e='' _l='' _end=0 _by='' _more='' _flags=''
	_rest=${_id#"${_id%%[:\;]*}"} _fields=${_id%%[:\;]*}
	case $_rest in ?2,*) _flags=${_rest#?2,} ;; esac
	_id=${_fields%%,*} _fields=${_fields#"$_id"}
	while [ -n "$_fields" ]; do
		_fields=${_fields#,}
		_field=${_fields%%,*}
		_fields=${_fields#"$_field"}
		case $_field in
		A=*) [ "$_a" != 0 ] || case ${_field#A=} in *[!0-9]* | '' | ??????????*) ;; *) _a=${_field#A=} _a=${_a#"${_a%%[!0]*}"} _a=${_a:-0} ;; esac ;;
		E=*) [ -n "$_e" ] || { _e=${_field#E=} && _e=${_e:-failed}; } ;;
		L=*) [ -n "$_l" ] || _l=$_field ;;
		A | E | L) ;;
		*) _more=$_more,$_field ;;
		esac
	done
	case $_l in L=[0-9]*.?*) case ${_l%%.*} in L=*[!0-9]* | L=?????????????*) ;; *) _end=${_l#L=} _by=${_l#*.} _end=${_end%%.*} ;; esac ;; esac
	case $1 in
	new/*) _state=queued ;;
	*) case $_e:$_l:$_flags in [!:]*) _state=$_e ;; :L*) _state=taken ;; *R*) _state=answered ;; *S*) _state=read ;; *T*) _state=recalled ;; *) _state=queued ;; esac ;;
	esac
}

# The one place that renames a Handoff [6]: $1 (new/... or cur/...) as step $2 says. Its path then in _path. 1: somebody else's meanwhile.
xfer_step() {
	xfer_split "$1"
	_to=cur _drop=SRT _add='' _fields=''
	case $2 in
	take) _l=L=$((_now + _lease)).$_inst ;;
	new) _to=new _a=$((_a + 1)) _l='' _drop=SRT${_e:+F} ;;
	read) _l='' _drop=${_e:+FT} _add=S ;;
	answered) _l='' _drop=${_e:+FT} _add=RS ;;
	failed | unreadable) _l='' _drop=SRTF _add=F ;;
	*) _l='' _drop=SRTF _add=T ;;
	esac
	case $2 in take | new | read | answered) _e='' ;; *) _e=$2 ;; esac
	[ "$_a" = 0 ] || _fields=,A=$_a
	_fields=$_fields${_e:+,E=$_e}${_l:+,$_l}
	[ -z "$_more" ] || _fields=$(printf %s "$_fields$_more" | tr , '\n' | sort -s -t= -k1,1 | tr '\n' ,) && _fields=${_fields%,}
	_set=''
	for _flag in F R S T; do
		case $_add:$_drop:$_flags in *$_flag*:*:* | *:*:*$_flag*) case $_add: in *$_flag*:) _set=$_set$_flag ;; *) case $_drop in *$_flag*) ;; *) _set=$_set$_flag ;; esac ;; esac ;; esac
	done
	case $_flags in *[!FRST]*) _set=$(printf %s "$_set$(printf %s "$_flags" | tr -d FRST)" | fold -b -w 1 | sort -u | tr -d '\n') ;; esac
	_path=$_to/$_id$_fields
	[ "$_to$_set" = new ] || _path=$_path:2,$_set
	[ "$_path" != "$1" ] || return 0
	! [ -d "$_path" ] && mv -f "$1" "$_path" 2>/dev/null && return # mv would move it into a directory
	! [ -f "$1" ] || _stuck=$1
	return 1
}
