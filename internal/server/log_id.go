package server

// The ids of log lines are mongod's if it has such a line, so that tools find them.
const (
	logStarting             = 4615611
	logBuildInfo            = 23403
	logOS                   = 51765
	logOptions              = 21951
	logListening            = 23015
	logWaiting              = 23016
	logRemoveSocket         = 23017
	logAccepted             = 22943
	logEnded                = 22944
	logTooMany              = 22942
	logClientMetadata       = 51800
	logReceiveFailed        = 22988
	logSendFailed           = 22989
	logParseFailed          = 21963
	logAcceptFailed         = 23022
	logHTTP                 = 4615639
	logListenFailed         = 20568
	logStartFailed          = 20557
	logSignal               = 23377
	logTerminate            = 23381
	logCloseListeners       = 20562
	logDraining             = 4784906
	logInterrupting         = 4784907
	logExiting              = 20565
	logShutDown             = 23138
	logNoAccessControl      = 22120
	logBoundToLocalhost     = 22140
	logRunningAsRoot        = 22138
	logFewFiles             = 22184
	logRotated              = 23166
	logRotateFailed         = 23168
	logPIDFile              = 23329
	logCreatedDirectory     = 20520
	logReplsetWithoutOption = 20547
	logCertificateEnds      = 23222
	logTLSVersion           = 23218
	// Ids that mongod does not have.
	logAdmin         = 9100001
	logAuditRotation = 9100014
	logInvariant     = 9100002
	logComponentStop = 9100003
	logUnneeded      = 9100004
	logPanic         = 9100005
	logEngineFailed  = 9100006
	logCosmos        = 9100007
	logWellKnownKey  = 9100008
	logMemberFailed  = 9100009
	logPeers         = 9100010
	logNotHandedOver = 9100011
	logRestored      = 9100012
	logRestoredDue   = 9100013
	logConsole       = 9100015
	logKeys          = 9100016
	logTelemetry     = 9100017
)
